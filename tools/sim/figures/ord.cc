// The figures of [ORD §IV]: streams that stay in order on a fabric that reorders.
#include <array>
#include <string>

#include "tools/sim/figures/figure.h"
#include "tools/sim/network/ordering.h"

namespace weir::sim::figures {
namespace {

using network::Ordering;
using network::OrderingScenario;

struct Mode {
  const char* name;
  Ordering ordering;
};

constexpr Mode unordered{"no ordering", Ordering::unordered};
constexpr Mode at_source{"source-side", Ordering::at_source};
constexpr Mode at_target{"target-side", Ordering::at_target};
constexpr Mode sync_source{"source-side sync", Ordering::sync_source};
constexpr Mode sync_target{"target-side sync", Ordering::sync_target};

Point ordering_point(std::string series, double x, const OrderingScenario& scenario,
                     std::uint32_t seeds) {
  return {.series = std::move(series),
          .x = x,
          .seeds = seeds,
          .cost = 4e-7 * static_cast<double>(scenario.to_cycles),
          .play = [scenario](std::uint64_t seed) { return run(scenario, seed); }};
}

// Streams of 10 to 40 packets, with nothing else in the fabric.
void add_latencies(Figure& figure, Size size, std::span<const Mode> modes) {
  for (const Mode& mode : modes) {
    for (const std::uint32_t packets : {10u, 20u, 40u}) {
      const OrderingScenario scenario{.ordering = mode.ordering,
                                      .stream_packets = packets,
                                      .one_by_one = true,
                                      .to_cycles = 200'000};
      figure.points.push_back(ordering_point(mode.name, packets, scenario, seeds(size)));
    }
  }
}

std::string sources_of(const std::string& what, std::uint32_t sources) {
  return what + ", " + std::to_string(sources) + " sources";
}

// Fig. 11 and 12: all sources' shortest paths have one link in common, and its load is .7.
OrderingScenario shared_link(std::uint32_t sources, std::uint32_t packets) {
  return {.stream_packets = packets,
          .sources = sources,
          .targets = 2,
          .load = 0.7 / sources,
          .to_cycles = 100'000};
}

}  // namespace

Figure ord_fig8a(Size size) {
  Figure figure;
  for (const Mode& mode : {unordered, at_source, at_target}) {
    for (const std::uint32_t flits : {8u, 16u, 32u}) {
      const OrderingScenario scenario{.ordering = mode.ordering, .flits = flits};
      figure.points.push_back(ordering_point(mode.name, flits, scenario, seeds(size)));
    }
  }
  return figure;
}

Figure ord_fig8b(Size size) {
  Figure figure;
  add_latencies(figure, size, std::array{unordered, at_source, at_target});
  return figure;
}

Figure ord_fig10(Size size) {
  Figure figure;
  add_latencies(figure, size, std::array{sync_source, sync_target, at_target});
  figure.claims = [](const Results& r) {
    const auto saved = [&](double packets) {
      return r.mean(sync_source.name, packets, "stream_latency") -
             r.mean(sync_target.name, packets, "stream_latency");
    };
    return Values{{"saved-10", saved(10)}, {"saved-40", saved(40)}};
  };
  return figure;
}

Figure ord_fig11(Size size) {
  Figure figure;
  for (const std::uint32_t packets : {32u, 128u}) {
    for (const std::uint32_t sources : {4u, 16u}) {
      figure.points.push_back(ordering_point(sources_of("uniform", sources), packets,
                                             shared_link(sources, packets), seeds(size)));
    }
    OrderingScenario scenario = shared_link(2, packets);
    scenario.bursts = true;
    scenario.fabric.switching.threshold *= 2;
    figure.points.push_back(
        ordering_point(sources_of("bursts", 2), packets, scenario, seeds(size)));
  }
  figure.claims = [](const Results& r) {
    // Of a target, for each of its sources: half of them.
    const auto connections = [&](std::uint32_t sources) {
      return r.mean(sources_of("uniform", sources), 128, "connections_mean") * 2 / sources;
    };
    return Values{{"connections-4", connections(4)}, {"connections-16", connections(16)}};
  };
  return figure;
}

Figure ord_fig12(Size size) {
  Figure figure;
  const auto add = [&](OrderingScenario scenario, std::uint32_t seeds) {
    const double x = scenario.stream_packets;
    const std::string series = sources_of("any number outstanding", scenario.sources);
    figure.points.push_back(ordering_point(series, x, scenario, seeds));
    scenario.places = 50;
    figure.points.push_back(
        ordering_point(sources_of("25 outstanding", scenario.sources), x, scenario, seeds));
  };
  for (const std::uint32_t sources : {4u, 16u}) {
    for (const std::uint32_t packets : {32u, 128u}) {
      OrderingScenario scenario = shared_link(sources, packets);
      scenario.buffer = 50;
      scenario.connections = 2;
      add(scenario, sources == 4 && packets == 128 ? 16 * seeds(size) : seeds(size));
    }
  }
  add({.stream_packets = 256, .targets = 1}, seeds(size));
  return figure;
}

}  // namespace weir::sim::figures
