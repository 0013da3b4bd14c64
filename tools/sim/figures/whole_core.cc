// Processes with all of the core that ships where messages share a fabric, a small dragonfly: the
// receive window, beside one of 512 that is there from the start ([ARWS]'s figure 2 in shape); and
// whose the read budget is, where many send to processes of one node.
#include <array>

#include "tools/sim/figures/figure.h"

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
  scenario.fabric.topology = small_dragonfly(size);
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
  return point(series, most, scenario_of(size, load, initial, most), seeds(size),
               size == Size::full ? 2 : 0.1);
}

}  // namespace

Figure core_window(Size size) {
  Figure figure;
  for (const Load& load : loads) {
    for (const std::uint32_t most : axis(size, {16, 64, 256, 1024}, {16, 256})) {
      figure.points.push_back(point_of(size, load.name, load, 8, most));
    }
    figure.points.push_back(
        point_of(size, std::string(load.name) + ", fixed", load, fixed_window, fixed_window));
  }
  return figure;
}

namespace {

// 2 of 72 nodes, with 4 processes each, are sent to by 16 others; all other nodes are pairs.
network::Scenario incast_scenario(Size size, BudgetOf of, std::uint32_t c, std::uint32_t factor,
                                  std::uint32_t processes = 4) {
  constexpr std::uint32_t receivers = 2;
  network::Scenario scenario;
  scenario.fabric.topology = small_dragonfly(Size::full);
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
  return scenario;
}

Point incast_point(Size size, const std::string& series, BudgetOf of, std::uint32_t c,
                   std::uint32_t factor, std::uint32_t processes = 4) {
  const network::Scenario scenario = incast_scenario(size, of, c, factor, processes);
  return point(series, c, scenario, seeds(size), size == Size::full ? 1.2 : 0.4);
}

}  // namespace

Figure core_budget(Size size) {
  Figure figure;
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
  return figure;
}

namespace {

struct Spells {
  double ms;  // at most; half of that in the mean
  std::uint32_t permille;
};
constexpr std::array spells = {Spells{0, 0}, Spells{1, 4}, Spells{4, 1}};

// Incast is that of core-budget, with as many processes as senders; the halo has no other load.
Point sharing_point(Size size, bool incast, bool shared, const Spells& spell) {
  const BudgetOf of = shared ? BudgetOf::node : BudgetOf::process;
  network::Scenario scenario = incast_scenario(size, of, 0, 4, incast ? 16 : 4);
  if (!incast) {
    scenario.pattern = Pattern::halo_2d;
    scenario.slow.clear();
  }
  scenario.compute_permille = spell.permille;
  scenario.compute_ns = static_cast<std::int64_t>(spell.ms * 1e6);
  const std::string series = std::string(incast ? "incast" : "halo") + (shared ? ", shared" : "");
  return point(series, spell.ms, scenario, seeds(size), size == Size::full ? 3 : 1);
}

}  // namespace

Figure core_sharing(Size size) {
  Figure figure;
  for (const bool incast : {true, false}) {
    for (const bool shared : {true, false}) {
      for (const Spells& spell : spells) {
        if (size == Size::full || spell.ms <= 1) {
          figure.points.push_back(sharing_point(size, incast, shared, spell));
        }
      }
    }
  }
  return figure;
}

}  // namespace weir::sim::figures
