// Links that lose packets or are down: what is left of the throughput, and whether anybody gives
// up.
#include <algorithm>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {
namespace {

using network::Protocol;
using network::Routing;
using network::Scenario;

Scenario base(Size size) {
  Scenario scenario = small_dragonfly();
  scenario.protocol = Protocol::reads;
  scenario.reads = 16;
  scenario.timeout_cycles = 2'000;  // 40 us: a network's, where the default of Linux is 67 ms
  scenario.retries = 3;
  scenario.from_cycles = size == Size::full ? 6'000 : 3'000;
  scenario.to_cycles = size == Size::full ? 20'000 : 12'000;
  return scenario;
}

}  // namespace

Figure lossy_links(Size size) {
  const bool full = size == Size::full;
  Figure figure;
  figure.title = "Links that are down, or lose packets";
  figure.source = "beyond the papers";
  figure.shows =
      "Not in the papers. What is lost an adapter asks for again after a timeout of 40 us; after 3 "
      "times in vain the connection is given up, and its transfers fail.";
  figure.differs =
      "1,056 nodes in pairs, c = 16. Links between groups (528 there are) go down at 60 us and "
      "stay so; or each link loses packets at random (the axis then is packets in a million). A "
      "switch "
      "discards what has no way, and knows of every link that is down at once. An adapter begins a "
      "read again from its start.";
  figure.x_label = "links down, or packets lost in a million";
  for (const std::uint32_t links : {0u, 5u, 20u, 80u}) {
    if (!full && links != 0 && links != 20) continue;
    for (const Routing routing : {Routing::minimal, Routing::progressive}) {
      Scenario scenario = base(size);
      scenario.fabric.switching.routing = routing;
      if (links > 0) scenario.outages = {{links, 3'000, scenario.to_cycles}};
      figure.points.push_back(
          point(routing == Routing::minimal ? "down, minimal" : "down, progressive", links,
                scenario, seeds(size)));
    }
  }
  for (const std::uint32_t millionth : {1u, 10u, 100u, 1'000u}) {
    if (!full && millionth != 100) continue;
    Scenario scenario = base(size);
    scenario.loss = millionth * 1e-6;
    figure.points.push_back(point("loss", millionth, scenario, seeds(size)));
  }
  figure.claims = [full](const Results& r) {
    const double whole = r.mean("down, progressive", 0);
    std::vector<Claim> claims = {
        {"minimal-20", "20 links down, shortest paths: throughput, of all up", "not stated",
         r.mean("down, minimal", 20) / r.mean("down, minimal", 0)},
        {"minimal-20-failed", "reads given up", "not stated",
         r.mean("down, minimal", 20, "failed")},
        {"progressive-20", "20 links down, progressive: throughput, of all up", "not stated",
         r.mean("down, progressive", 20) / whole},
        {"progressive-20-failed", "reads given up", "not stated",
         r.mean("down, progressive", 20, "failed")},
        {"loss-100", "one packet in 10,000 lost on each link: throughput, of none", "not stated",
         r.mean("loss", 100) / whole},
        {"loss-100-failed", "reads given up", "not stated", r.mean("loss", 100, "failed")}};
    if (full) {
      claims.push_back({"loss-1", "one in a million: throughput, of none", "not stated",
                        r.mean("loss", 1) / whole});
      claims.push_back({"loss-1000", "one in 1,000: throughput, of none", "not stated",
                        r.mean("loss", 1'000) / whole});
    }
    return claims;
  };
  return figure;
}

}  // namespace weir::sim::figures
