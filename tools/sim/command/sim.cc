// `weir sim`: the transport's receiver-driven core on fabrics of thousands of nodes.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/data_files.h"
#include "tools/sim/figures/report.h"
#include "tools/sim/figures/runner.h"
#include "tools/sim/scenario/scenario_file.h"

namespace weir::tools {
namespace {

using sim::figures::Claims;
using sim::figures::Figure;
using sim::figures::Measured;
using sim::figures::Results;
using sim::figures::Shown;
using sim::figures::Size;

// Of all subcommands; each takes some of them.
struct Options {
  std::string file;
  std::vector<std::string> figures;
  std::uint64_t seed = 1;
  std::uint32_t seeds = 1;
  unsigned jobs = 0;
  bool json = false;
  bool smoke = false;
  std::string output = "weir-sim";
  std::string claims = data_file("sim/figures/claims.json");
};

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc | std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

// People see how far it is; programs see nothing.
std::vector<Results> play(const std::vector<Figure>& figures, const Options& options) {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const unsigned jobs = options.jobs == 0 ? sim::figures::cores() : options.jobs;
  auto results = sim::figures::play(figures, jobs, options.seed, [&](auto done, auto of) {
    if (terminal) fmt::print(stderr, "\r\x1b[K{} of {} points ", done, of);
  });
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  return results;
}

// ---- run

void run(const Options& options) {
  const sim::ScenarioFile file = sim::read_scenario(options.file);
  for (const config::Problem& problem : file.problems) {
    fmt::print(stderr, "{}\n", config::to_text(problem));
  }
  if (!file.problems.empty()) throw CLI::RuntimeError(2);
  Figure figure;
  figure.points.push_back(sim::figures::point("", 0, file.scenario, options.seeds));
  const std::vector<Results> results = play({figure}, options);
  bool broken = false;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Results::Row& row : results[0].rows) {
    const Measured& measured = row.measured;
    broken = broken || !measured.violation.empty();
    nlohmann::ordered_json one = {{"seed", row.seed}};
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

// ---- reproduce

void reproduce(const Options& options) {
  const Size size = options.smoke ? Size::smoke : Size::full;
  for (const std::string& name : options.figures) {
    if (sim::figures::find(name) != nullptr) continue;
    fmt::print(stderr, "weir sim: there is no figure {}; 'weir sim list' names them\n", name);
    throw CLI::RuntimeError(2);
  }
  const Claims claims = sim::figures::read_claims(options.claims);
  std::vector<Figure> figures;
  for (const sim::figures::Entry& entry : sim::figures::all()) {
    const auto& wanted = options.figures;
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), entry.name) != wanted.end()) {
      figures.push_back(sim::figures::make(entry, size, claims));
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Results> results = play(figures, options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;

  const std::filesystem::path directory = options.output;
  std::filesystem::create_directories(directory);
  std::vector<Shown> shown;
  double cpu_s = 0;
  double events = 0;
  std::size_t points = 0;
  bool all_drawn = true;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const std::string& name = figures[i].name;
    shown.push_back(sim::figures::judge(figures[i], results[i], size));
    write_file(directory / (name + ".csv"), sim::figures::to_csv(results[i]));
    const std::string picture = sim::figures::to_svg(figures[i], results[i]);
    all_drawn = all_drawn && !picture.empty();
    if (!picture.empty()) write_file(directory / (name + ".svg"), picture);
    for (const Results::Row& row : results[i].rows) {
      cpu_s += row.measured.cpu_s;
      events += static_cast<double>(row.measured.events);
      ++points;
    }
    fmt::print("{}", sim::figures::to_text(shown.back()));
  }
  const std::string how = fmt::format(
      "{} points{} in {:.0f} s; {:.0f} CPU seconds, {:.1f} million events a CPU second.", points,
      options.smoke ? " of the smoke set" : "", took.count(), cpu_s,
      cpu_s > 0 ? events / cpu_s / 1e6 : 0);
  write_file(directory / "report.md", sim::figures::to_markdown(shown, how));
  fmt::print("{}\n{}\n", how, (directory / "report.md").string());
  if (!all_drawn) {
    fmt::print(stderr, "weir sim: no pictures: gnuplot is not installed, or failed\n");
  }
  const bool good =
      std::all_of(shown.begin(), shown.end(), [](const Shown& one) { return one.holds(); });
  if (!good || !all_drawn) throw CLI::RuntimeError(good ? 3 : 1);
}

void list(const Options& options) {
  const Claims claims = sim::figures::read_claims(options.claims);
  for (const sim::figures::Entry& entry : sim::figures::all()) {
    fmt::print("{:<12} {}\n", entry.name, claims.at(entry.name).title);
  }
}

std::string keys_text() {
  std::string text = "\nScenario keys, each on a line 'key: value':\n";
  for (const sim::ScenarioKey& key : sim::scenario_keys()) {
    text += fmt::format("  {:<17} {:<36} {}\n", key.name, key.takes, key.fallback);
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
      "  weir sim run conf/sim/rdrp-1pct-8x.yaml --seed 2\n"
      "\nExit status: 0; 1 when a check or a band does not hold; 2 on wrong usage; 3 without\n"
      "pictures.");

  const auto options = std::make_shared<Options>();
  const auto add = [&](const char* name, void (*command)(const Options&), const char* what,
                       const std::string& footer) -> CLI::App& {
    CLI::App* const added = group->add_subcommand(name, what);
    added->footer(footer)->callback([options, command] { command(*options); });
    return *added;
  };

  CLI::App& run_app =
      add("run", run, "Play one scenario and show what came of it",
          keys_text() +
              "\nWhat is shown: throughput, flits into memory a node and cycle (1 is the\n"
              "link); first_percentile, the same for the node that fares worst but for one in\n"
              "a hundred, slow ones left out; latency_cycles of packets; detours a packet;\n"
              "trace_hash, the same for the same run. Of 'endpoints: core' shown are throughput\n"
              "of what messages carry, gbit_s of it, and rate, the messages that a process\n"
              "receives in a ms; window and memory_kib (receive buffers of a process, their\n"
              "memory at its peak), rnr_naks, and overcommitted: credits that no buffer stood\n"
              "for.\n"
              "\nExamples:\n"
              "  weir sim run conf/sim/rdrp-1pct-8x.yaml\n"
              "  weir sim run conf/sim/incast.yaml --seeds 4 --json | jq .runs[].throughput\n"
              "\nExit status: 0; 1 when flits, credits or budgets were not conserved or\n"
              "nothing moved; 2 on wrong usage or a mistake in the file (named with its\n"
              "line).");
  run_app.add_option("SCENARIO", options->file, "A YAML file")->required();
  run_app.add_option("--seeds", options->seeds, "How many")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  run_app.add_flag("--json", options->json, "For programs");

  CLI::App& reproduce_app = add(
      "reproduce", reproduce, "Play the papers' figures; write CSV, SVG and one report in Markdown",
      "\nEach number is shown with what the paper says and the band that our own model is held\n"
      "to; the report says what differs and what is not reproduced. Pictures need gnuplot.\n"
      "\nExamples:\n"
      "  weir sim reproduce                         all of it: some minutes on two cores\n"
      "  weir sim reproduce --figure rdrp-fig5 --output /tmp/fig5\n"
      "\nExit status: 0; 1 when a number left its band or a check did not hold; 2 on wrong usage;\n"
      "3 when that is all well, but there is no gnuplot to draw pictures.");
  reproduce_app.add_option("--figure", options->figures,
                           "Only this one (repeatable; weir sim list)");
  reproduce_app.add_flag("--smoke", options->smoke, "A few points of each on a small fabric");
  reproduce_app.add_option("--output", options->output, "The directory to write to")
      ->capture_default_str();
  reproduce_app
      .add_option("--claims", options->claims, "What the numbers are held to, a JSON file")
      ->type_name("FILE");

  for (CLI::App* const each : {&run_app, &reproduce_app}) {
    each->add_option("--seed", options->seed, "The first seed")->capture_default_str();
    each->add_option("--jobs", options->jobs, "Points at a time; 0: as many as there are cores");
  }

  add("list", list, "Name the figures that can be reproduced", "");
}

}  // namespace weir::tools
