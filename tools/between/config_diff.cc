#include "tools/between/config_diff.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "tools/between/differences.h"
#include "tools/between/host.h"
#include "tools/between/hosts.h"
#include "tools/between/ways.h"

namespace weir::tools::between {
namespace {

constexpr const char* manual =
    "Asks each host, by Open MPI's remote shell, for the configuration of a process started\n"
    "there. Shows the keys that are not the same everywhere: one line each, with hosts and\n"
    "sources. This host is one of them. MCA parameters of weir in the environment hold\n"
    "everywhere, as mpirun hands them on. WEIR_ variables hold only here, unless a login there\n"
    "sets them.\n"
    "\n"
    "Exit status:\n"
    "  0  the same everywhere\n"
    "  1  something differs, has a mistake, or a host does not answer\n"
    "  2  wrong usage\n"
    "\n"
    "Examples:\n"
    "  weir config diff --host node7 --host node8\n"
    "  weir config diff --hostfile hosts --json | jq '.differences[] | select(.alike)'";

struct Asked {
  std::vector<std::pair<std::string, Facts>> known;
  std::vector<std::pair<std::string, std::string>> silent;  // and why
};

Asked ask_all(const std::vector<std::string>& names, const Options& options) {
  constexpr std::size_t at_once = 32;
  Asked asked;
  for (std::size_t first = 0; first < names.size(); first += at_once) {
    const auto begin = names.begin() + static_cast<std::ptrdiff_t>(first);
    const auto hosts = start_hosts(
        {begin, begin + static_cast<std::ptrdiff_t>(std::min(at_once, names.size() - first))},
        {options.shell});
    Json question = first_question(options);
    question["only_configuration"] = true;
    for (const auto& host : hosts) host->ask(question);
    const auto end = doctor::Clock::now() + std::chrono::seconds(options.limit_s);
    for (const auto& host : hosts) {
      std::string why;
      if (const auto said = host->answer(Host::left_until(end), why)) {
        asked.known.emplace_back(host->name(), facts_of(*said));
      } else {
        asked.silent.emplace_back(host->name(), why);
      }
    }
  }
  return asked;
}

void print_json(const Asked& asked, const std::vector<Difference>& found) {
  Json all = Json::array();
  for (const Difference& difference : found) {
    Json values = Json::array();
    for (const Same& same : difference.values) {
      Json hosts = Json::object();
      for (const auto& [host, where] : same.hosts) hosts[host] = where;
      values.push_back({{"value", same.value}, {"hosts", hosts}});
    }
    all.push_back({{"key", difference.key}, {"alike", difference.alike}, {"values", values}});
  }
  Json hosts = Json::object();
  for (const auto& [name, facts] : asked.known) {
    hosts[name] = {{"profile_in_effect", facts.profile}, {"mistakes", facts.mistakes}};
  }
  Json silent = Json::object();
  for (const auto& [name, why] : asked.silent) silent[name] = why;
  const Json whole{{"hosts", hosts}, {"differences", all}, {"no_answer", silent}};
  fmt::print("{}\n", whole.dump(2, ' ', false, Json::error_handler_t::replace));
}

void diff(const Options& options) {
  std::vector<std::string> names = options.peers;
  add_hosts(names, hosts_in_files(options));
  check_names(names);
  if (names.empty()) throw CLI::ValidationError("--host", "name a host, or a --hostfile");
  const std::string own = own_name();
  if (std::none_of(names.begin(), names.end(),
                   [&](const std::string& name) { return is_this_host(name, own); })) {
    names.insert(names.begin(), own);
  }
  const Asked asked = ask_all(names, options);
  const std::vector<Difference> found = differences(asked.known);
  bool mistakes = false;
  for (const auto& [name, facts] : asked.known) mistakes |= facts.mistakes > 0;
  if (options.json) {
    print_json(asked, found);
  } else {
    for (const Difference& difference : found) fmt::print("{}\n", between::line_of(difference));
    if (found.empty() && asked.known.size() > 1) {
      fmt::print("all {} keys are the same on {} hosts\n", config::schema().size(),
                 asked.known.size());
    }
    for (const auto& [name, facts] : asked.known) {
      if (facts.mistakes == 0) continue;
      fmt::print(stderr, "{}: {} (weir config check names all mistakes)\n", name,
                 facts.first_mistake);
    }
    for (const auto& [name, why] : asked.silent) {
      fmt::print(stderr, "{} does not answer: {}\n", name, why);
    }
  }
  if (!found.empty() || mistakes || !asked.silent.empty()) throw CLI::RuntimeError(1);
}

}  // namespace

void add_config_diff(CLI::App& group) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      group.add_subcommand("diff", "Show what is set differently on other hosts, and from where");
  command->add_option("--host", options->peers, "A host; again for more")->type_name("HOST");
  add_host_options(*command, *options);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(manual);
  command->callback([options] { diff(*options); });
}

}  // namespace weir::tools::between
