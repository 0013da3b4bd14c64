// Processes with all of the core that ships where messages share a fabric, a small dragonfly: the
// receive window, beside one of 512 that is there from the start ([ARWS]'s figure 2 in shape); and
// whose the read budget is, where many send to processes of one node.
#include <array>

#include "tools/sim/figures/figure.h"
#include "tools/sim/figures/window_claims.h"

namespace weir::sim::figures {
namespace {

using network::BudgetOf;
using network::Pattern;

struct Load {
  const char* name;
  Pattern pattern;
  std::uint32_t to_each;  // messages
};
constexpr std::array loads = {Load{"all-to-all", Pattern::all_to_all, 8},
                              Load{"halo", Pattern::halo_2d, 100}};

network::Scenario scenario_of(Size size, const Load& load, std::uint32_t initial,
                              std::uint32_t most) {
  network::Scenario scenario;
  scenario.fabric.topology = {.p = 2, .a = 4, .h = 2};
  if (size == Size::smoke) scenario.fabric.topology = {.p = 2, .a = 2, .h = 1};
  scenario.endpoints = network::EndpointsAre::core;
  scenario.pattern = load.pattern;
  const bool all = load.pattern == Pattern::all_to_all;
  scenario.rounds = load.to_each * (all ? scenario.fabric.topology.nodes() : 1);
  scenario.message_bytes = 4'000;
  scenario.window_initial = initial;
  scenario.window_max = most;
  return scenario;
}

Point point_of(Size size, const std::string& series, const Load& load, std::uint32_t initial,
               std::uint32_t most) {
  Point point = figures::point(series, most, scenario_of(size, load, initial, most), seeds(size));
  point.cost = size == Size::full ? 2 : 0.1;
  return point;
}

}  // namespace

Figure core_window(Size size) {
  Figure figure;
  figure.title = "Receive memory of an adaptive window, on a fabric";
  figure.source = "[ARWS] Fig. 2, on the fabric of [RDRP §4.1]";
  figure.shows =
      "With W_max 256 and more, applications run as fast as with a fixed window of 512, with a "
      "part of its receive memory.";
  figure.differs =
      "72 processes, one a node of a small dragonfly, with invented traffic and the protocol core "
      "that ships; nobody waits for anybody's message. The paper has applications and no "
      "congestion.";
  figure.x_label = "W_max, buffers of 4 KiB";
  figure.y_label = "peak receive memory of a process, KiB";
  figure.y = "memory_kib";
  figure.log_x = figure.log_y = true;
  for (const Load& load : loads) {
    for (const std::uint32_t most : {16u, 64u, 256u, 1024u}) {
      if (size == Size::smoke && most != 16 && most != 256) continue;
      figure.points.push_back(point_of(size, load.name, load, 8, most));
    }
    figure.points.push_back(
        point_of(size, std::string(load.name) + ", fixed", load, fixed_window, fixed_window));
  }
  figure.claims = [](const Results& results) {
    std::vector<Claim> claims;
    for (const Load& load : loads) {
      const std::string name = load.name;
      add_memory_claims(results, name, claims);
      add_speed_claims(results, name, "finished_us", claims);
      claims.push_back({name + "-naks-16", name + ": RNR NAKs, W_max 16", "not stated",
                        results.mean(name, 16, "rnr_naks")});
    }
    return claims;
  };
  return figure;
}

namespace {

// 2 of 72 nodes, with 4 processes each, are sent to by 16 others; all other nodes are pairs.
Point incast_point(Size size, const std::string& series, BudgetOf of, std::uint32_t c,
                   std::uint32_t factor, std::uint32_t processes = 4) {
  constexpr std::uint32_t receivers = 2;
  network::Scenario scenario;
  scenario.fabric.topology = {.p = 2, .a = 4, .h = 2};
  scenario.endpoints = network::EndpointsAre::core;
  scenario.pattern = Pattern::incast;
  scenario.receivers = receivers;
  scenario.senders = 16;
  scenario.slow = {{receivers, factor}};
  scenario.rounds = size == Size::full ? 20 : 5;
  scenario.message_bytes = 64 << 10;
  scenario.processes = processes;
  scenario.budget_of = of;
  scenario.adaptive = c == 0;
  scenario.reads = c;
  Point point = figures::point(series, c, scenario, seeds(size));
  point.cost = size == Size::full ? 1.2 : 0.4;
  return point;
}

}  // namespace

Figure core_budget(Size size) {
  Figure figure;
  figure.title = "A read budget belongs to the node, with all of the core";
  figure.source = "beyond [RDRP §3.3]";
  figure.shows =
      "The paper's implementation bounds the gets of a transfer. Shown is what nodes get that have "
      "nothing to do with an incast, while two others are sent to by 16 each.";
  figure.differs =
      "72 nodes of a small dragonfly with 4 processes each and the protocol core that ships; those "
      "of a node share its budget through the node's tokens, as they do in a job, or each has its "
      "own; or nothing counts but max_rd_atomic, c a connection, at most 16. Two receivers take "
      "data 4x slower than the link, or at its rate. c = 0 on the axis is the shipped controller.";
  figure.x_label = "c (0: adaptive)";
  figure.y_label = "throughput of the others, flits a node and cycle";
  figure.y = "others";
  const auto add = [&](const char* series, BudgetOf of, std::uint32_t c, std::uint32_t factor) {
    figure.points.push_back(incast_point(size, series, of, c, factor));
  };
  const bool full = size == Size::full;
  for (const std::uint32_t c : {0u, 4u, 16u, 30u}) {
    if (full || c == 0 || c == 30) add("of the node, 4x", BudgetOf::node, c, 4);
    if (full || c == 30) add("of each of 4 processes, 4x", BudgetOf::process, c, 4);
    if (c == 16 || (full && c == 4)) add("of a connection, 4x", BudgetOf::transfer, c, 4);
  }
  figure.points.push_back(
      incast_point(size, "of the node, 1 process, 4x", BudgetOf::node, 30, 4, 1));
  add("of the node, fast", BudgetOf::node, 30, 1);
  add("of each of 4 processes, fast", BudgetOf::process, 30, 1);
  add("of a connection, fast", BudgetOf::transfer, 16, 1);
  figure.claims = [](const Results& r) {
    const auto others = [&](const char* series, double c) { return r.mean(series, c, "others"); };
    const double node = others("of the node, 4x", 30);
    const double fast = others("of the node, fast", 30);
    return std::vector<Claim>{
        {"node-30", "4x slower receivers, c = 30 a node: throughput of the others", "not stated",
         node},
        {"process-30", "c = 30 each of 4 processes", "not stated",
         others("of each of 4 processes, 4x", 30)},
        {"connection-16", "16 a connection, as adapters agree on", "not stated",
         others("of a connection, 4x", 16)},
        {"gain-process", "gain of the node's budget over one each of 4 processes", "not stated",
         node / others("of each of 4 processes, 4x", 30)},
        {"gain-connection", "its gain over 16 a connection", "not stated",
         node / others("of a connection, 4x", 16)},
        {"gain-fast-process", "with receivers at full speed: gain over one each of 4 processes",
         "not stated", fast / others("of each of 4 processes, fast", 30)},
        {"gain-fast-connection", "its gain over 16 a connection", "not stated",
         fast / others("of a connection, fast", 16)},
        {"shared-of-one", "shared by 4 processes, of one process with it", "not stated",
         node / others("of the node, 1 process, 4x", 30)},
        {"adaptive", "adaptive, of c = 30 a node", "not stated",
         others("of the node, 4x", 0) / node},
        {"node-reads", "reads of a node under way at most, c = 30", "c",
         r.mean("of the node, 4x", 30, "node_reads")}};
  };
  return figure;
}

namespace {

constexpr std::array stepping = {Load{"halo", Pattern::halo_2d, 8},
                                 Load{"wavefront", Pattern::wavefront, 4},
                                 Load{"all-to-all", Pattern::all_to_all, 8}};

Point steps_point(Size size, const Load& load, std::uint32_t kib, bool core) {
  network::Scenario scenario;
  scenario.fabric.topology = {.p = 2, .a = 4, .h = 2};
  if (size == Size::smoke) scenario.fabric.topology = {.p = 2, .a = 2, .h = 1};
  scenario.pattern = load.pattern;
  scenario.rounds = load.to_each;
  scenario.message_bytes = std::uint64_t{kib} << 10;
  scenario.reads = 16;
  scenario.protocol = network::Protocol::reads;
  scenario.from_cycles = 0;
  scenario.to_cycles = 1'000'000;
  if (core) scenario.endpoints = network::EndpointsAre::core;
  scenario.steps_wait = core;
  const std::string series = std::string(load.name) + (core ? ", core" : ", models");
  Point point = figures::point(series, kib, scenario, seeds(size));
  point.play = [scenario](std::uint64_t seed) {
    const network::Measured measured = network::run(scenario, seed);
    Sample steps = figures::sample(measured);
    steps.values = {{"throughput", measured.throughput},
                    {"finished_us", measured.messages.finished_us},
                    {"median_us", measured.messages.median_us},
                    {"p99_us", measured.messages.p99_us}};
    return steps;
  };
  point.cost = (core ? 0.015 : 0.0015) * kib * (size == Size::full ? 1 : 0.2);
  return point;
}

}  // namespace

Figure core_steps(Size size) {
  Figure figure;
  figure.title = "Steps of ranks: all of the core beside the models";
  figure.source = "beyond";
  figure.shows =
      "The same fabric, steps and read budget, played by models of adapters and ob1, and by "
      "processes with all of the core: two programs that have what ships in common.";
  figure.differs =
      "72 nodes, a rank each, c = 16, nobody slow. The core adds what models have not: frames and "
      "their completions, credits, and ranks that look for what is there every microsecond, which "
      "is what small messages show.";
  figure.x_label = "KiB of a message";
  figure.y_label = "time until all is received, us";
  figure.y = "finished_us";
  figure.log_x = figure.log_y = true;
  for (const Load& load : stepping) {
    for (const std::uint32_t kib : {4u, 16u, 64u, 256u}) {
      if (size == Size::smoke && kib != 64) continue;
      for (const bool core : {true, false}) {
        figure.points.push_back(steps_point(size, load, kib, core));
      }
    }
  }
  figure.claims = [size](const Results& r) {
    std::vector<Claim> claims;
    for (const Load& load : stepping) {
      for (const std::uint32_t kib : {4u, 64u, 256u}) {
        if (size == Size::smoke && kib != 64) continue;
        const std::string name = load.name;
        const std::string is = std::to_string(kib);
        claims.push_back({name + "-" + is, name + ", " + is + " KiB: time of the core, of models'",
                          "not stated",
                          r.mean(name + ", core", kib, "finished_us") /
                              r.mean(name + ", models", kib, "finished_us")});
      }
    }
    return claims;
  };
  return figure;
}

}  // namespace weir::sim::figures
