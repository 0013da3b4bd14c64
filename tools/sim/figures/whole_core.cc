// The receive window where messages share a fabric: processes with all of the core that ships on a
// dragonfly, beside a window of 512 that is there from the start ([ARWS]'s figure 2 in shape).
#include <array>

#include "tools/sim/figures/figure.h"
#include "tools/sim/figures/window_claims.h"

namespace weir::sim::figures {
namespace {

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

}  // namespace weir::sim::figures
