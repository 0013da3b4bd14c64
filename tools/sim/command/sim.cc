// `weir sim`: the transport's receiver-driven core on fabrics of thousands of nodes.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
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
#include "tools/sim/command/advise.h"
#include "tools/sim/figures/report.h"
#include "tools/sim/figures/runner.h"
#include "tools/sim/scenario/scenario_file.h"

namespace weir::tools {
namespace {

using sim::figures::Claims;
using sim::figures::Figure;
using sim::figures::Measured;
using sim::figures::Progress;
using sim::figures::Results;
using sim::figures::Shown;
using sim::figures::Size;
using sim::figures::Verdict;
using sim::network::Scenario;

// Of all subcommands; each takes some of them.
struct Options {
  std::string file;
  std::vector<std::string> figures;
  std::uint64_t seed = 1;
  std::uint32_t seeds = 1;
  std::uint32_t advice_seeds = 3;
  unsigned jobs = 0;
  bool json = false;
  bool smoke = false;
  bool table = false;
  std::string output = "weir-sim";
  std::string claims = data_file("sim/figures/claims.json");
};

// A line that is written over, for people; programs see none.
class Bar {
 public:
  void show(const Progress& p) {
    if (!terminal_) return;
    constexpr std::size_t width = 30;
    const std::size_t full = p.done * width / p.points;
    fmt::print(stderr, "\r\x1b[K[{}{}] {}/{}  {}  {}", std::string(full, '#'),
               std::string(width - full, '.'), p.done, p.points, p.figure,
               p.done == p.points ? "" : fmt::format("{:.0f} s left", p.left_s));
    std::fflush(stderr);
    shown_ = true;
  }
  ~Bar() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc | std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

unsigned jobs_of(unsigned wish) { return wish == 0 ? sim::figures::cores() : wish; }

// Ends the command where the file is not a good one.
Scenario read_good_scenario(const std::string& path) {
  const sim::ScenarioFile file = sim::read_scenario(path);
  for (const config::Problem& problem : file.problems) {
    fmt::print(stderr, "{}\n", config::to_text(problem));
  }
  if (!file.problems.empty()) throw CLI::RuntimeError(2);
  return file.scenario;
}

// ---- run

void run(const Options& options) {
  const Scenario scenario = read_good_scenario(options.file);
  Figure figure;
  figure.points.push_back(sim::figures::point("", 0, scenario, options.seeds));
  const Results results = [&] {
    Bar bar;
    return sim::figures::play({figure}, jobs_of(options.jobs), options.seed,
                              [&](const Progress& p) { bar.show(p); });
  }()[0];

  bool broken = false;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Results::Row& row : results.rows) {
    const Measured& measured = row.measured;
    broken = broken || !measured.violation.empty();
    nlohmann::ordered_json one = {{"seed", row.seed}};
    one.update(sim::figures::to_json(measured));
    one["throughput_of_1000_cycles"] = measured.windows;
    all.push_back(one);
    if (options.json) continue;
    fmt::print("seed {}\n", row.seed);
    for (const auto& [name, value] : measured.values) fmt::print("  {:<18} {:.4g}\n", name, value);
    fmt::print("  {:<18} {}\n  {:<18} {:016x}\n  {:<18} {:.2f}\n  {:<18} {:.0f}\n", "events",
               measured.events, "trace_hash", measured.trace_hash, "cpu_s", measured.cpu_s,
               "process_peak_mib", measured.peak_mib);
    if (broken) fmt::print("  BROKEN: {}\n", measured.violation);
  }
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"scenario", options.file}, {"nodes", scenario.fabric.topology.nodes()}, {"runs", all}};
    fmt::print("{}\n", json.dump(2));
  }
  if (broken) throw CLI::RuntimeError(1);
}

// ---- reproduce

void reproduce(const Options& options) {
  const Size size = options.smoke ? Size::smoke : Size::full;
  for (const std::string& name : options.figures) {
    if (sim::figures::find(name) == nullptr) {
      fmt::print(stderr, "weir sim: there is no figure {}; 'weir sim list' names them\n", name);
      throw CLI::RuntimeError(2);
    }
  }
  const Claims claims = sim::figures::read_claims(options.claims);
  std::vector<Figure> figures;
  for (const sim::figures::Entry& entry : sim::figures::all()) {
    const auto& wanted = options.figures;
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), entry.name) != wanted.end()) {
      figures.push_back(sim::figures::make(entry, size, claims));
    }
  }
  const unsigned jobs = jobs_of(options.jobs);
  Progress last;
  const std::vector<Results> results = [&] {
    Bar bar;
    return sim::figures::play(figures, jobs, options.seed, [&](const Progress& p) {
      last = p;
      bar.show(p);
    });
  }();

  const std::filesystem::path directory = options.output;
  std::filesystem::create_directories(directory);
  std::vector<Shown> shown;
  std::vector<std::string> pictures;
  double cpu_s = 0;
  double peak_mib = 0;
  std::uint64_t events = 0;
  bool good = true;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    shown.push_back(sim::figures::judge(figures[i], results[i], size));
    pictures.push_back(sim::figures::to_svg(figures[i], results[i]));
    const std::string& name = figures[i].name;
    write_file(directory / (name + ".csv"), sim::figures::to_csv(results[i]));
    write_file(directory / (name + ".json"), sim::figures::to_json(shown.back()));
    if (!pictures.back().empty()) write_file(directory / (name + ".svg"), pictures.back());
    for (const Results::Row& row : results[i].rows) {
      cpu_s += row.measured.cpu_s;
      events += row.measured.events;
      peak_mib = std::max(peak_mib, row.measured.peak_mib);
    }
    good = good && shown.back().violations.empty();
    for (const sim::figures::Judged& judged : shown.back().claims) {
      good = good && judged.verdict != Verdict::outside;
    }
    fmt::print("{}", sim::figures::to_text(shown.back()));
  }
  const std::string how = fmt::format(
      "{} points{} in {:.0f} s on {} core{}; {:.0f} CPU seconds, {:.1f} million events a CPU "
      "second; at most {:.0f} MiB.",
      last.points, options.smoke ? " of the smoke set" : "", last.elapsed_s, jobs,
      jobs == 1 ? "" : "s", cpu_s, cpu_s > 0 ? static_cast<double>(events) / cpu_s / 1e6 : 0,
      peak_mib);
  write_file(directory / "report.html", sim::figures::to_html(shown, pictures, how));
  fmt::print("{}\n{}\n", how, (directory / "report.html").string());
  const bool all_drawn = std::none_of(pictures.begin(), pictures.end(),
                                      [](const std::string& svg) { return svg.empty(); });
  if (!all_drawn) {
    fmt::print(stderr, "weir sim: no pictures: gnuplot is not installed, or failed\n");
  }
  if (!good || !all_drawn) throw CLI::RuntimeError(good ? 3 : 1);
}

// ---- advise

void advise(const Options& options) {
  const Scenario cluster = read_good_scenario(options.file);
  if (ends(cluster.pattern) || cluster.endpoints != sim::network::EndpointsAre::models) {
    fmt::print(stderr, "weir sim: advice is for 'endpoints: models' with pairs or incast\n");
    throw CLI::RuntimeError(2);
  }
  const sim::Advice advice = [&] {
    Bar bar;
    return sim::advise(cluster, jobs_of(options.jobs), options.seed, options.advice_seeds,
                       [&](const Progress& p) { bar.show(p); });
  }();
  fmt::print("{}{}", options.table ? advice.table : "", advice.yaml);
}

void list(const Options&) {
  const Claims claims = sim::figures::read_claims(Options{}.claims);
  for (const sim::figures::Entry& entry : sim::figures::all()) {
    fmt::print("{:<12} {}\n", entry.name, claims.at(entry.name).title);
  }
}

std::string keys_text() {
  std::string text = "\nScenario keys, each on a line 'key: value':\n";
  for (const sim::ScenarioKey& key : sim::scenario_keys()) {
    text += fmt::format("  {:<17} {:<36} {}\n", key.name, key.takes, key.fallback);
    text += fmt::format("  {:<17}   {}.\n", "", key.help);
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
      "  weir sim advise conf/sim/fat-tree.yaml\n"
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
              "trace_hash, the same for the same run; process_peak_mib, of the whole\n"
              "process so far. Of 'endpoints: core' shown are throughput of what messages\n"
              "carry, gbit_s of it, and rate, the messages that a process receives in a ms;\n"
              "window and memory_kib (receive buffers of a process, their memory at its peak),\n"
              "rnr_naks, and overcommitted: credits that no buffer stood for; with tokens\n"
              "token_requests, that took some, and those that went straight_through; with\n"
              "proxy_servers frames that they took (proxy_served), that shared a send\n"
              "(proxy_coalesced) and that came back (proxy_repeated); with context_cache\n"
              "context_misses, of contexts_needed by requests and answers.\n"
              "\nExamples:\n"
              "  weir sim run conf/sim/rdrp-1pct-8x.yaml\n"
              "  weir sim run conf/sim/incast.yaml --seeds 4 --json | jq .runs[].throughput\n"
              "\nExit status: 0; 1 when flits, credits or budgets were not conserved or\n"
              "nothing moved; 2 on wrong usage or a mistake in the file (named with its\n"
              "line).");
  run_app.add_option("SCENARIO", options->file, "A YAML file")->required();
  run_app.add_option("--seed", options->seed, "The first seed")->capture_default_str();
  run_app.add_option("--seeds", options->seeds, "How many")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  run_app.add_option("--jobs", options->jobs, "At a time; 0: as many as there are cores");
  run_app.add_flag("--json", options->json, "For programs");

  CLI::App& reproduce_app = add(
      "reproduce", reproduce, "Play the papers' figures; write CSV, JSON, SVG and one HTML report",
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
  reproduce_app.add_option("--jobs", options->jobs,
                           "Points at a time; 0: as many as there are cores");
  reproduce_app.add_option("--seed", options->seed, "The first seed")->capture_default_str();
  reproduce_app.add_option("--output", options->output, "The directory to write to")
      ->capture_default_str();
  reproduce_app
      .add_option("--claims", options->claims, "What the numbers are held to, a JSON file")
      ->type_name("FILE");

  CLI::App& advise_app = add(
      "advise", advise, "Find the chunk size and read budget for a cluster: lines for weir.yaml",
      "\nPlays chunk sizes and bounds on that and prints the best as YAML ('weir config explain\n"
      "reads_max'); what the file says of them is left aside, and of when is measured. Where\n"
      "several are as good, the one that adapts, for no cluster is quite its model; then the\n"
      "larger chunk. It says how sure that is: how far behind another choice it was with any of\n"
      "the seeds, and how many choices do as well.\n"
      "\nExamples:\n"
      "  weir sim advise my-cluster.yaml > my.yaml; weir config check my.yaml\n"
      "  weir sim advise conf/sim/fat-tree.yaml --table\n"
      "\nExit status: 0; 2 on wrong usage.");
  advise_app
      .add_option("SCENARIO", options->file,
                  "A YAML file with a cluster's fabric, slow nodes and streams")
      ->required();
  advise_app.add_option("--jobs", options->jobs,
                        "Candidates at a time; 0: as many as there are cores");
  advise_app.add_option("--seed", options->seed, "The first seed")->capture_default_str();
  advise_app
      .add_option("--seeds", options->advice_seeds,
                  "Seeds to play each choice with: they show how sure the advice is")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  advise_app.add_flag("--table", options->table, "Show every candidate, as comments");

  add("list", list, "Name the figures that can be reproduced", "");
}

}  // namespace weir::tools
