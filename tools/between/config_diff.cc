#include "tools/between/config_diff.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "tools/between/at_once.h"
#include "tools/between/differences.h"
#include "tools/between/host.h"
#include "tools/between/host_options.h"
#include "tools/between/hosts.h"
#include "tools/between/ways.h"

namespace weir::tools::between {
namespace {

constexpr const char* manual =
    "Asks each host for the configuration of a process started there. Shows the keys that are not the same everywhere: one line each, with hosts and\n"
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
    "  weir config diff --hosts node[001-500]\n"
    "  weir config diff --hosts \"$SLURM_JOB_NODELIST\"\n"
    "  weir config diff --hostfile hosts --json | jq '.differences[] | select(.alike)'";

struct Asked {
  std::vector<std::pair<std::string, Facts>> known;
  std::vector<std::pair<std::string, std::string>> silent;  // and why
};

Asked ask_all(const std::vector<std::string>& names, const HostOptions& options) {
  constexpr std::size_t most = 64;
  const Starter starter(launcher_here(options), {"doctor", "--answer"});
  Json question = first_question({});
  question["only_configuration"] = true;
  struct Answer {
    std::optional<Facts> facts;
    std::string why;
  };
  std::vector<Answer> answers(names.size());
  at_once(most, names.size(), [&](std::size_t i) {
    const auto host = starter.start(names[i]);
    host->ask(question);
    if (const auto said = host->answer(std::chrono::seconds(options.limit_s), answers[i].why)) {
      answers[i].facts = facts_of(*said);
    }
  });
  Asked asked;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (answers[i].facts) {
      asked.known.emplace_back(names[i], *answers[i].facts);
    } else {
      asked.silent.emplace_back(names[i], answers[i].why);
    }
  }
  return asked;
}

void print_json(const Asked& asked, const std::vector<Difference>& found) {
  Json hosts = Json::object();
  for (const auto& [name, facts] : asked.known) {
    hosts[name] = {{"profile_in_effect", facts.profile}, {"mistakes", facts.mistakes}};
  }
  Json silent = Json::object();
  for (const auto& [name, why] : asked.silent) silent[name] = why;
  const Json whole{{"hosts", hosts}, {"differences", to_json(found)}, {"no_answer", silent}};
  fmt::print("{}\n", whole.dump(2, ' ', false, Json::error_handler_t::replace));
}

struct DiffOptions {
  HostOptions hosts;
  bool json = false;
};

void diff(const DiffOptions& options) {
  std::vector<std::string> names = hosts_in(options.hosts);
  if (names.empty()) throw CLI::ValidationError("--hosts", "name hosts, or a --hostfile");
  const std::string own = own_name();
  if (std::none_of(names.begin(), names.end(),
                   [&](const std::string& name) { return is_this_host(name, own); })) {
    names.insert(names.begin(), own);
  }
  const Asked asked = ask_all(names, options.hosts);
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
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command =
      group.add_subcommand("diff", "Show what is set differently on other hosts, and from where");
  add_host_options(*command, options->hosts, "--hosts,--host");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(manual);
  command->callback([options] { diff(*options); });
}

}  // namespace weir::tools::between
