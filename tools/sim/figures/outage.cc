// Links that lose packets or are down for a while: what all of the core makes of it.
#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {
namespace {

using network::Routing;
using network::Scenario;

Scenario base(Size size) {
  Scenario scenario;
  scenario.fabric.topology = small_dragonfly(Size::full);
  scenario.endpoints = network::EndpointsAre::core;
  scenario.message_bytes = 128 << 10;
  scenario.rounds = size == Size::full ? 40 : 8;
  scenario.reads = 16;
  scenario.timeout_cycles = 2'000;  // 40 us: a network's, where the default of Linux is 67 ms
  return scenario;
}

}  // namespace

Figure lossy_links(Size size) {
  Figure figure;
  for (const std::uint32_t links : axis(size, {0, 1, 4}, {0, 4})) {
    for (const Routing routing : {Routing::minimal, Routing::progressive}) {
      Scenario scenario = base(size);
      scenario.fabric.switching.routing = routing;
      if (links > 0) scenario.fabric.outages = {{links, 1'000, 6'000}};
      const bool minimal = routing == Routing::minimal;
      figure.points.push_back(
          point(minimal ? "down, minimal" : "down, progressive", links, scenario, 2 * seeds(size)));
    }
  }
  for (const std::uint32_t millionth : axis(size, {1, 10, 100, 1'000}, {1'000})) {
    Scenario scenario = base(size);
    scenario.fabric.loss = millionth * 1e-6;
    figure.points.push_back(point("loss", millionth, scenario, 2 * seeds(size)));
  }
  for (Point& point : figure.points) point.cost = size == Size::full ? 1.2 : 0.3;
  return figure;
}

}  // namespace weir::sim::figures
