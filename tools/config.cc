// `weir config`: what is set, where it comes from, whether it is right, and what it means.

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/between/config_diff.h"
#include "tools/commands.h"
#include "tools/here.h"
#include "transport/config/caps.h"
#include "transport/config/nearest.h"
#include "transport/config/reference.h"
#include "transport/config/resolve.h"
#include "transport/config/yaml_file.h"

namespace weir::tools {
namespace {

using config::Configuration;
using config::Fabric;
using config::Key;
using config::Value;

constexpr const char* precedence =
    "Which value wins, the weakest first:\n"
    "  1. the built-in default\n"
    "  2. the profile (rxe, roce, infiniband); if none is set, the one of the port in use\n"
    "  3. /etc/weir/weir.yaml\n"
    "  4. $XDG_CONFIG_HOME/weir/weir.yaml, or ~/.config/weir/weir.yaml\n"
    "  5. the file that WEIR_CONFIG or the MCA parameter btl_weir_config names; 'none': 3 to 6 do\n"
    "     not count\n"
    "  6. environment variables, WEIR_<KEY>: WEIR_WINDOW_MAX=256\n"
    "  7. MCA parameters, btl_weir_<key>: --mca btl_weir_window_max 256\n"
    "\n"
    "weir config sees MCA parameters in the environment (OMPI_MCA_btl_weir_<key>), but neither\n"
    "those of a mpirun command line nor those of Open MPI's own files.";

struct ShowOptions {
  std::string profile;
  std::string file;
  bool defaults = false;
  bool json = false;
  bool yaml = false;
};

config::Sources sources(const ShowOptions& options) {
  config::Sources all = sources_here(options.file);
  if (!options.profile.empty()) {
    all.list.push_back({.layer = config::Layer::parameter,
                        .entries = {{"profile", options.profile, "option --profile", 0}},
                        .problems = {}});
  }
  return all;
}

void print_problems(const std::vector<config::Problem>& problems) {
  for (const config::Problem& problem : problems) {
    fmt::print(stderr, "{}\n", config::to_text(problem));
  }
}

void print_warnings(const config::Sources& from) {
  for (const std::string& warning : from.warnings) fmt::print(stderr, "warning: {}\n", warning);
}

void print_table(const Configuration& found, const std::string& port) {
  std::size_t widest = 0;
  for (const Value& value : found.values) widest = std::max(widest, value.text.size());
  const auto row = [&](const std::string& key, const std::string& value, const std::string& from) {
    fmt::print("{:<20}  {:<{}}  {}\n", key, value, std::max<std::size_t>(widest, 5), from);
  };
  row("KEY", "VALUE", "FROM");
  for (const Key* key : config::by_importance()) {
    row(key->name, found.value(*key).text, found.value(*key).where);
  }
  fmt::print("\nProfile in effect: {}{}\n", found.profile.empty() ? "none" : found.profile,
             port.empty() ? " (there is no usable RDMA port here)" : ", port " + port);
}

void print_json(const Configuration& found, const std::string& port) {
  nlohmann::ordered_json keys;
  for (const Key* key : config::by_importance()) {
    const Value& value = found.value(*key);
    keys[key->name] = {{"value", value.text}, {"from", value.where}};
  }
  const nlohmann::ordered_json all = {
      {"profile_in_effect", found.profile}, {"port", port}, {"keys", keys}};
  // A value may hold any bytes.
  fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void show(const ShowOptions& options) {
  if (options.defaults) {
    fmt::print("{}", config::reference_yaml());
    return;
  }
  const config::Sources from = sources(options);
  std::string port;
  const Fabric fabric = fabric_here(config::resolve(from, Fabric::unknown).settings, port);
  const Configuration found = config::resolve(from, fabric);
  print_problems(found.problems);
  print_warnings(from);
  if (options.json) {
    print_json(found, port);
  } else if (options.yaml) {
    fmt::print("{}", config::to_yaml(found));
  } else {
    print_table(found, port);
  }
  if (!found.problems.empty()) throw CLI::RuntimeError(1);
}

void check(const std::vector<std::string>& files) {
  bool good = true;
  const auto judge = [&](const config::Sources& from, const std::string& name) {
    const Configuration found = config::resolve(from, Fabric::unknown);
    print_problems(found.problems);
    if (found.problems.empty()) fmt::print("{}: ok\n", name);
    good = good && found.problems.empty();
  };
  for (const std::string& file : files) {
    config::Sources alone;
    alone.list.push_back(config::read_yaml_file(file, config::Layer::named_file));
    judge(alone, file);
  }
  const config::Sources here = sources({});
  if (files.empty()) judge(here, "configuration");
  print_warnings(here);
  if (!good) throw CLI::RuntimeError(1);
}

void explain_key(const Key& key) {
  fmt::print(
      "{0}{1}\n"
      "  {2}.\n\n"
      "  takes        {3}\n"
      "  default      {4}\n"
      "  because      {5}\n"
      "  YAML         {0}: {4}\n"
      "  environment  {6}={4}\n"
      "  MCA          --mca {7} {4}\n",
      key.name, key.matters_most() ? "  (one of those that matter most)" : "", key.help,
      config::accepts(key), key.fallback, key.reason, config::environment_name(key),
      config::mca_name(key));
  if (key.alike) fmt::print("  alike        in all processes of a job\n");
  if (config::cap_of(key))
    fmt::print("  later        while a job runs: weir set {}=VALUE\n", key.name);
  for (const auto& [name, entry] : config::profile_entries()) {
    if (entry.key == key.name) fmt::print("  profile      {}: {}\n", name, entry.value);
  }
}

void explain(const std::string& name) {
  if (!name.empty()) {
    const Key* const key = config::find_key(name);
    if (key == nullptr) {
      fmt::print(stderr, "{}: {}\n", name, config::no_such_key(name));
      throw CLI::RuntimeError(1);
    }
    explain_key(*key);
    return;
  }
  bool most = true;
  fmt::print("What matters most:\n");
  for (const Key* key : config::by_importance()) {
    if (most && !key->matters_most()) {
      most = false;
      fmt::print("\nThe rest:\n");
    }
    fmt::print("  {:<20} {:<7} {}\n", key->name, key->fallback, key->help);
  }
  fmt::print("\n'weir config explain KEY' tells the range, the reason and how to set it.\n");
}

}  // namespace

void add_config(CLI::App& app) {
  CLI::App* group = app.add_subcommand("config", "Show, check and explain weir's settings");
  group->require_subcommand(1);
  group->footer(std::string("\n") + precedence +
                "\n\nExamples:\n"
                "  weir config show                       what is in effect here, and why\n"
                "  weir config check my.yaml              all mistakes of a file, with lines\n"
                "  weir config explain window_max         one key\n"
                "  weir config diff --hostfile hosts      what differs between hosts\n"
                "  weir config show --defaults > my.yaml  a file to start from\n"
                "\nExit status: 0, or 1 when something is wrong with the configuration.");

  auto options = std::make_shared<ShowOptions>();
  CLI::App* show_app =
      group->add_subcommand("show", "Show the values in effect and where each of them comes from");
  show_app
      ->add_option("--profile", options->profile,
                   "Assume this profile: auto, rxe, roce or infiniband")
      ->check(CLI::IsMember({"auto", "rxe", "roce", "infiniband"}));
  show_app->add_option("--file", options->file, "Assume that WEIR_CONFIG names this file");
  auto* json = show_app->add_flag("--json", options->json, "Print one JSON object");
  auto* yaml =
      show_app->add_flag("--yaml", options->yaml, "Print a YAML file that sets every value");
  auto* defaults = show_app->add_flag("--defaults", options->defaults,
                                      "Every key with its default, range and reason, as "
                                      "the installed weir.yaml; looks at nothing else");
  json->excludes(yaml)->excludes(defaults);
  yaml->excludes(defaults);
  show_app->footer(std::string("\n") + precedence +
                   "\n\nExamples:\n"
                   "  weir config show --profile infiniband\n"
                   "  weir config show --json | jq .keys.window_max\n"
                   "\nExit status: 1 when a value is not acceptable (it is named, and left out).");
  show_app->callback([options] { show(*options); });

  auto files = std::make_shared<std::vector<std::string>>();
  CLI::App* check_app = group->add_subcommand(
      "check", "Name every mistake in files, or in the configuration in effect here");
  check_app->add_option("FILE", *files,
                        "YAML files, each checked alone; none: the configuration in effect");
  check_app->footer(
      "\nMistakes go to stderr as 'file:line: key: reason'. A variable that is almost WEIR_<KEY>\n"
      "gets a warning.\n"
      "\nExamples:\n"
      "  weir config check /etc/weir/weir.yaml\n"
      "  WEIR_WINDOW_MAX=0 weir config check\n"
      "\nExit status: 0 without a mistake (warnings do not count), else 1.");
  check_app->callback([files] { check(*files); });

  between::add_config_diff(*group);

  auto key = std::make_shared<std::string>();
  CLI::App* explain_app = group->add_subcommand(
      "explain", "Tell what a key means, what it takes, and the reason for its default");
  explain_app->add_option("KEY", *key, "A key; none: all of them, the most important first");
  explain_app->footer(
      "\nExamples:\n"
      "  weir config explain\n"
      "  weir config explain rnr_timer\n"
      "\nExit status: 1 when there is no such key (the nearest one is named).");
  explain_app->callback([key] { explain(*key); });
}

}  // namespace weir::tools
