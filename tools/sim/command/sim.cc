// `weir sim`: the transport's receiver-driven core on fabrics of thousands of nodes.

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tools/commands.h"
#include "tools/data_files.h"
#include "tools/sim/network/scenario.h"
#include "tools/sim/scenario/scenario_file.h"

namespace weir::tools {
namespace {

using sim::network::Measured;

struct Options {
  std::string file;
  std::uint64_t seed = 1;
  std::uint32_t seeds = 1;
  unsigned jobs = 0;
  bool json = false;
};

// Of this thread alone: runs are side by side.
double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// A run for each seed, several at a time: the result does not depend on how many. People see how
// far it is; programs see nothing.
std::vector<Measured> play(const sim::network::Scenario& scenario, const Options& options) {
  std::vector<Measured> runs(options.seeds);
  std::atomic<std::uint32_t> next{0};
  std::mutex mutex;
  std::uint32_t done = 0;
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const auto work = [&] {
    for (std::uint32_t i = next++; i < options.seeds; i = next++) {
      const double begin = cpu_seconds();
      try {
        runs[i] = sim::network::run(scenario, options.seed + i);
      } catch (const std::exception& error) {
        runs[i].violation = error.what();
      }
      runs[i].cpu_s = cpu_seconds() - begin;
      const std::lock_guard lock(mutex);
      if (terminal) fmt::print(stderr, "\r\x1b[K{} of {} runs ", ++done, options.seeds);
    }
  };
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> threads;
  for (unsigned i = 1; i < std::min(options.jobs == 0 ? cores : options.jobs, options.seeds); ++i) {
    threads.emplace_back(work);
  }
  work();
  threads.clear();
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  return runs;
}

void run(const Options& options) {
  const sim::ScenarioFile file = sim::read_scenario(options.file);
  for (const config::Problem& problem : file.problems) {
    fmt::print(stderr, "{}\n", config::to_text(problem));
  }
  if (!file.problems.empty()) throw CLI::RuntimeError(2);
  bool broken = false;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Measured& measured : play(file.scenario, options)) {
    broken = broken || !measured.violation.empty();
    nlohmann::ordered_json one = {{"seed", options.seed + all.size()}};
    for (const auto& [name, value] : measured.values) one[name] = value;
    one.update({{"events", measured.events},
                {"trace_hash", fmt::format("{:016x}", measured.trace_hash)},
                {"cpu_s", measured.cpu_s},
                {"violation", measured.violation}});
    if (!options.json) {
      for (const auto& [name, value] : one.items()) {
        fmt::print("{:<18} {}\n", name,
                   value.is_number_float() ? fmt::format("{:.4g}", value.get<double>())
                   : value.is_string()     ? value.get<std::string>()
                                           : value.dump());
      }
    }
    all.push_back(std::move(one));
  }
  if (options.json) {
    const nlohmann::ordered_json json = {{"scenario", options.file},
                                         {"nodes", file.scenario.fabric.topology.nodes()},
                                         {"runs", all}};
    fmt::print("{}\n", json.dump(2));
  }
  if (broken) throw CLI::RuntimeError(1);
}

// The papers' figures are a program of their own, in Python. It plays points by `weir sim run`.
void add_figures(CLI::App& group, const std::string& name, const char* what) {
  CLI::App* const added = group.add_subcommand(name, what);
  added->prefix_command();
  added->set_help_flag();
  added->callback([added, name] {
    ::setenv("WEIR_COMMAND", (command_folder() / "weir").c_str(), 1);
    std::vector<std::string> arguments = added->remaining();
    arguments.insert(arguments.begin(), name);
    throw CLI::RuntimeError(become("sim/figures/figures.py", std::move(arguments)));
  });
}

std::string keys_text() {
  std::string text = "\nScenario keys, each on a line 'key: value':\n";
  for (const sim::ScenarioKey& key : sim::scenario_keys()) {
    const std::string takes = key.takes != nullptr ? key.takes : config::accepts(key.form);
    text += fmt::format("  {:<17} {:<36} {}\n", key.form.name, takes, key.form.fallback);
    text +=
        fmt::format("  {:<17}   {}{}{}.\n", "", key.with, key.with.empty() ? "" : ": ", key.help);
  }
  return text;
}

}  // namespace

void add_sim(CLI::App& app) {
  CLI::App* group =
      app.add_subcommand("sim", "Simulate weir's receivers on fabrics of thousands of nodes");
  group->require_subcommand(1);
  group->footer(
      "\nThe fabric is a model: packets, virtual channels with credits, adaptive routing, slow\n"
      "nodes. What the receivers read, and how much at a time, is decided by the objects that the\n"
      "transport uses (rendezvous/); with 'endpoints: core' all of the protocol is "
      "(transport/core).\n"
      "A run is a function of scenario and seed.\n"
      "\nExamples:\n"
      "  weir sim list\n"
      "  weir sim reproduce --smoke                 the figures, small: half a minute\n"
      "  weir sim run rdrp-1pct-8x.yaml --seed 2\n"
      "\nExit status: 0; 1 when a check or a verdict does not hold; 2 on wrong usage; 3 without\n"
      "pictures.");

  const auto options = std::make_shared<Options>();
  CLI::App& run_app = *group->add_subcommand("run", "Play one scenario and show what came of it");
  run_app.callback([options] { run(*options); });
  run_app.footer(
      keys_text() +
      "\nWhat is shown: throughput, flits into memory a node and cycle (1 is the\n"
      "link); best_window, the same of the best 1,000 cycles; latency_cycles of packets;\n"
      "trace_hash, the same for the same run. Of 'endpoints: core': gbit_s, what messages\n"
      "carry; rate, the messages that a process receives in a ms; memory_kib, the peak of\n"
      "a process's receive buffers; others, the throughput beside an incast.\n"
      "\nExamples:\n"
      "  cd PREFIX/share/weir/sim\n"
      "  weir sim run rdrp-1pct-8x.yaml\n"
      "  weir sim run incast.yaml --seeds 4 --json | jq .runs[].throughput\n"
      "\nExit status: 0; 1 when flits, credits or budgets were not conserved or\n"
      "nothing moved; 2 on wrong usage or a mistake in the file (named with its\n"
      "line).");
  run_app.add_option("SCENARIO", options->file, "A YAML file")->required();
  run_app.add_option("--seed", options->seed, "The first seed")->capture_default_str();
  run_app.add_option("--seeds", options->seeds, "How many")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  run_app.add_option("--jobs", options->jobs, "Runs at a time; 0: as many as there are cores");
  run_app.add_flag("--json", options->json, "For programs");

  add_figures(*group, "reproduce",
              "Play the papers' figures; write CSV, SVG and one report in Markdown");
  add_figures(*group, "list", "Name the figures that can be reproduced");
}

}  // namespace weir::tools
