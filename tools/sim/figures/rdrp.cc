// The figures of [RDRP §4.1]: 5,256 nodes in pairs that send to each other, some of them slow.
#include <array>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {
namespace {

using network::Protocol;
using network::Scenario;

std::string times(std::uint32_t factor) { return std::to_string(factor) + "x"; }

// 5,256 nodes [RDRP §4.1]; in smoke 1,056.
Scenario with_slow(Size size, std::uint32_t nodes, std::uint32_t factor) {
  Scenario scenario;
  if (size == Size::smoke) {
    scenario.fabric.topology = middle_dragonfly();
    scenario.from_cycles = 3'000;
    scenario.to_cycles = 6'000;
  }
  scenario.slow = {{nodes, factor}};
  return scenario;
}

// One in a hundred.
std::uint32_t percent(Size size) { return size == Size::full ? 53 : 11; }

struct Setting {
  const char* name;
  double marking;
  std::uint32_t decay;
};
constexpr std::array settings = {Setting{"none", 0, 4}, Setting{"default", 1, 4},
                                 Setting{"aggressive", 2, 50}};

Scenario with_ecn(Scenario scenario, const Setting& setting) {
  scenario.fabric.switching.marking = setting.marking;
  scenario.becn.on = setting.marking > 0;
  scenario.becn.decay_cycles = setting.decay;
  return scenario;
}

// Where senders that no receiver bounds stand on the axis of c.
constexpr double unbounded = 200;

std::string unbounded_series(std::uint32_t factor, const Setting& setting) {
  return setting.marking > 0 ? times(factor) + ", ECN " + setting.name : times(factor);
}

}  // namespace

Figure rdrp_fig1(Size size) {
  Figure figure;
  for (const std::uint32_t factor : {8u, 2u}) {
    for (const std::uint32_t slow : axis(size, {0, 1, 2, 5, 13, 26, 53}, {0, 11})) {
      figure.points.push_back(
          point(times(factor), slow, with_slow(size, slow, factor), seeds(size)));
    }
  }
  for (const std::uint32_t slow : axis(size, {0, 5, 53}, {11})) {
    Scenario scenario = with_slow(size, slow, 8);
    scenario.fabric.switching.bias = 2;
    figure.points.push_back(point("8x, bias 2", slow, scenario));
  }
  return figure;
}

Figure rdrp_fig4(Size size) {
  Figure figure;
  for (const Setting& setting : settings) {
    const auto add = [&](const std::string& series, std::uint32_t slow, std::uint32_t factor) {
      Scenario scenario = with_slow(size, slow, factor);
      if (size == Size::full) {
        scenario.from_cycles = 5'000;
        scenario.to_cycles = 10'000;
      }
      // Two seeds for what something is claimed of.
      figure.points.push_back(
          point(series, slow, with_ecn(scenario, setting), slow == 0 ? seeds(size) : 1));
    };
    add(setting.name, 0, 1);
    for (const std::uint32_t factor : axis(size, {2, 4, 8}, {8})) {
      for (const std::uint32_t slow : axis(size, {5, 53}, {11})) {
        add(std::string(setting.name) + " " + times(factor), slow, factor);
      }
    }
  }
  return figure;
}

Figure rdrp_fig5(Size size) {
  Figure figure;
  // Two seeds for what collapses; with a bound they are a quarter of a percent apart.
  for (const std::uint32_t factor : axis(size, {2, 4, 8}, {8})) {
    for (const std::uint32_t c : axis(size, {2, 4, 8, 16, 24, 30, 40, 60, 128}, {2, 16, 30})) {
      Scenario scenario = with_slow(size, percent(size), factor);
      scenario.protocol = Protocol::reads;
      scenario.reads = c;
      figure.points.push_back(point(times(factor), c, scenario, 1));
    }
    for (const Setting& setting : settings) {
      figure.points.push_back(point(unbounded_series(factor, setting), unbounded,
                                    with_ecn(with_slow(size, percent(size), factor), setting),
                                    seeds(size)));
    }
  }
  return figure;
}

}  // namespace weir::sim::figures
