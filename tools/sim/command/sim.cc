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
#include <thread>
#include <vector>

#include "tools/commands.h"
#include "tools/data_files.h"
#include "tools/sim/figures/figure.h"
#include "tools/sim/scenario/scenario_file.h"

namespace weir::tools {
namespace {

using sim::figures::Figure;
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
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  auto results = sim::figures::play(
      figures, options.jobs == 0 ? cores : options.jobs, options.seed, [&](auto done, auto of) {
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
  figure.points.push_back({"", 0, options.seeds, file.scenario});
  const std::vector<Results> results = play({figure}, options);
  bool broken = false;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Results::Row& row : results[0].rows) {
    const sim::network::Measured& measured = row.measured;
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
  std::vector<Figure> figures =
      sim::figures::read_figures(options.claims, options.smoke ? Size::smoke : Size::full);
  const auto& wanted = options.figures;
  for (const std::string& name : wanted) {
    if (std::ranges::find(figures, name, &Figure::name) != figures.end()) continue;
    fmt::print(stderr, "weir sim: there is no figure {}; 'weir sim list' names them\n", name);
    throw CLI::RuntimeError(2);
  }
  std::erase_if(figures, [&](const Figure& figure) {
    return !wanted.empty() && std::ranges::find(wanted, figure.name) == wanted.end();
  });
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Results> results = play(figures, options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;

  const std::filesystem::path directory = options.output;
  std::filesystem::create_directories(directory / "data");
  std::vector<Shown> shown;
  double cpu_s = 0;
  std::size_t points = 0;
  bool good = true;
  bool all_drawn = true;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    shown.emplace_back(figures[i], results[i]);
    const std::filesystem::path path = directory / "data" / figures[i].name;
    write_file(path.string() + ".csv", sim::figures::to_csv(results[i]));
    all_drawn = sim::figures::draw(shown.back(), path.string() + ".svg") && all_drawn;
    good = good && shown.back().faults.empty();
    for (const Results::Row& row : results[i].rows) cpu_s += row.measured.cpu_s;
    points += results[i].rows.size();
    fmt::print("{}", sim::figures::to_text(shown.back()));
  }
  const std::string how =
      fmt::format("{} points{} in {:.0f} s, {:.0f} CPU seconds.", points,
                  options.smoke ? " of the smoke set" : "", took.count(), cpu_s);
  write_file(directory / "README.md", sim::figures::to_markdown(shown, how));
  fmt::print("{}\n{}\n", how, (directory / "README.md").string());
  if (!all_drawn) {
    fmt::print(stderr, "weir sim: no pictures: gnuplot is not installed, or failed\n");
  }
  if (!good || !all_drawn) throw CLI::RuntimeError(good ? 3 : 1);
}

void list(const Options& options) {
  for (const Figure& figure : sim::figures::read_figures(options.claims, Size::smoke)) {
    fmt::print("{:<12} {}\n", figure.name, figure.title);
  }
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
  run_app.add_option("--seeds", options->seeds, "How many")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  run_app.add_flag("--json", options->json, "For programs");

  CLI::App& reproduce_app = add(
      "reproduce", reproduce, "Play the papers' figures; write CSV, SVG and one report in Markdown",
      "\nEach number is shown with what the paper says and a verdict: whether ours is that, weaker,\n"
      "stronger, or none of it. README.md in the output folder is the report. Pictures need\n"
      "gnuplot.\n"
      "\nExamples:\n"
      "  weir sim reproduce                         all of it: some minutes on two cores\n"
      "  weir sim reproduce --figure rdrp-fig5 --output /tmp/fig5\n"
      "\nExit status: 0; 1 when a verdict is another one or a check did not hold; 2 on wrong usage;\n"
      "3 when that is all well, but there is no gnuplot to draw pictures.");
  reproduce_app.add_option("--figure", options->figures,
                           "Only this one (repeatable; weir sim list)");
  reproduce_app.add_flag("--smoke", options->smoke, "A few points of each on a small fabric");
  reproduce_app.add_option("--output", options->output, "The directory to write to")
      ->capture_default_str();
  reproduce_app
      .add_option("--claims", options->claims, "What is claimed, a JSON file")
      ->type_name("FILE");

  for (CLI::App* const each : {&run_app, &reproduce_app}) {
    each->add_option("--seed", options->seed, "The first seed")->capture_default_str();
    each->add_option("--jobs", options->jobs, "Points at a time; 0: as many as there are cores");
  }

  add("list", list, "Name the figures that can be reproduced", "");
}

}  // namespace weir::tools
