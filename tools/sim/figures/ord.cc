// The figures of [ORD §IV]: streams that stay in order on a fabric that reorders.
#include <array>

#include "tools/sim/figures/figure.h"
#include "tools/sim/network/ordering.h"

namespace weir::sim::figures {
namespace {

using network::Ordering;
using network::OrderingMeasured;
using network::OrderingScenario;
using network::QueueMetric;

struct Mode {
  const char* name;
  Ordering ordering;
};

constexpr Mode unordered{"no ordering", Ordering::unordered};
constexpr Mode at_source{"source-side", Ordering::at_source};
constexpr Mode at_target{"target-side", Ordering::at_target};
constexpr Mode sync_source{"source-side sync", Ordering::sync_source};
constexpr Mode sync_target{"target-side sync", Ordering::sync_target};

OrderingScenario base() {
  OrderingScenario scenario;
  scenario.fabric = network::ordering_fabric();
  return scenario;
}

Point ordering_point(Size size, std::string series, double x, const OrderingScenario& scenario) {
  return {.series = std::move(series),
          .x = x,
          .seeds = seeds(size),
          .cost = 0.2,
          .play = [scenario](std::uint64_t seed) {
            const OrderingMeasured measured = run(scenario, seed);
            return Sample{.values = {{"throughput", measured.throughput},
                                     {"latency_cycles", measured.stream_latency},
                                     {"out_of_order", measured.out_of_order},
                                     {"reorder_peak", measured.reorder_peak},
                                     {"reorder_mean", measured.reorder_mean},
                                     {"connections", measured.connections_peak}},
                          .events = measured.events,
                          .trace_hash = measured.trace_hash,
                          .cpu_s = measured.cpu_s,
                          .violation = measured.violation,
                          .windows = {},
                          .peak_mib = 0};
          }};
}

OrderingScenario one_stream(Ordering ordering, std::uint32_t packets) {
  OrderingScenario scenario = base();
  scenario.ordering = ordering;
  scenario.stream_packets = packets;
  scenario.streams = 5;
  scenario.cycles = 300'000;
  return scenario;
}

}  // namespace

Figure ord_fig8a(Size size) {
  Figure figure;
  figure.title = "Ordering costs no throughput when the target does it";
  figure.source = "[ORD] Fig. 8(a)";
  figure.shows =
      "Maximum accepted load over the packet length, streams of 10 packets: close to the link "
      "without ordering and with target-side ordering; a small fraction with source-side ordering.";
  figure.differs =
      "One source, 32 targets in another group, as in the paper; 100,000 cycles with the "
      "start (some 1 % less). One source alone queues nowhere, so nothing is reordered here; in "
      "the "
      "paper a third is.";
  figure.x_label = "flits a packet";
  figure.log_y = true;
  for (const Mode& mode : {unordered, at_source, at_target}) {
    for (const std::uint32_t flits : {8u, 16u, 32u}) {
      OrderingScenario scenario = base();
      scenario.ordering = mode.ordering;
      scenario.flits = flits;
      scenario.cycles = 100'000;
      figure.points.push_back(ordering_point(size, mode.name, flits, scenario));
    }
  }
  figure.claims = [](const Results& r) {
    return std::vector<Claim>{
        {"target", "target-side, 16 flits", "near 1", r.mean(at_target.name, 16)},
        {"target-of-unordered", "target-side, of no ordering", "1",
         r.mean(at_target.name, 16) / r.mean(unordered.name, 16)},
        {"source", "source-side, 16 flits", "a small fraction", r.mean(at_source.name, 16)},
        {"source-32-of-8", "source-side, 32 flits, of 8 flits", "4",
         r.mean(at_source.name, 32) / r.mean(at_source.name, 8)}};
  };
  return figure;
}

Figure ord_fig8b(Size size) {
  Figure figure;
  figure.title = "A stream's latency, ordered by source or target";
  figure.source = "[ORD] Fig. 8(b)";
  figure.shows =
      "Latency of one stream of 10 to 40 packets: linear and by far the largest with source-side "
      "ordering; the same without ordering and with target-side ordering.";
  figure.differs = "Nothing else is in the fabric; five streams, one after the other.";
  figure.x_label = "packets a stream";
  figure.y_label = "cycles";
  figure.y = "latency_cycles";
  figure.log_y = true;
  for (const Mode& mode : {unordered, at_source, at_target}) {
    for (const std::uint32_t packets : {10u, 20u, 40u}) {
      figure.points.push_back(
          ordering_point(size, mode.name, packets, one_stream(mode.ordering, packets)));
    }
  }
  figure.claims = [](const Results& r) {
    const auto latency = [&](const Mode& mode, double packets) {
      return r.mean(mode.name, packets, "latency_cycles");
    };
    return std::vector<Claim>{{"target-10", "target-side, 10 packets, cycles",
                               "as without ordering", latency(at_target, 10)},
                              {"target-40", "target-side, 40 packets, cycles",
                               "as without ordering", latency(at_target, 40)},
                              {"target-of-unordered", "target-side, of no ordering, 40 packets",
                               "1", latency(at_target, 40) / latency(unordered, 40)},
                              {"source-10", "source-side, 10 packets, cycles",
                               "one round trip a packet", latency(at_source, 10)},
                              {"source-40-of-10", "source-side, 40 packets, of 10", "4",
                               latency(at_source, 40) / latency(at_source, 10)}};
  };
  return figure;
}

Figure ord_fig10(Size size) {
  Figure figure;
  figure.title = "Synchronization held at the target saves a round trip";
  figure.source = "[ORD] Fig. 10";
  figure.shows =
      "Latency from the first data packet to the delivery of the synchronization: source-side "
      "synchronization adds at least a round trip; target-side synchronization and target-side "
      "ordering are the same.";
  figure.differs = "Links of 40 and 500 cycles, so a round trip is some 1,160 cycles.";
  figure.x_label = "packets a stream";
  figure.y_label = "cycles";
  figure.y = "latency_cycles";
  for (const Mode& mode : {sync_source, sync_target, at_target}) {
    for (const std::uint32_t packets : {10u, 20u, 40u}) {
      figure.points.push_back(
          ordering_point(size, mode.name, packets, one_stream(mode.ordering, packets)));
    }
  }
  figure.claims = [](const Results& r) {
    const auto latency = [&](const Mode& mode) { return r.mean(mode.name, 20, "latency_cycles"); };
    return std::vector<Claim>{
        {"saved", "cycles saved by the target, 20 packets", "at least a round trip (1,160)",
         latency(sync_source) - latency(sync_target)},
        {"sync-of-ordering", "target-side synchronization, of target-side ordering", "1",
         latency(sync_target) / latency(at_target)}};
  };
  return figure;
}

Figure ord_fig11(Size size) {
  Figure figure;
  figure.title = "How much a target has to hold back";
  figure.source = "[ORD] Fig. 11";
  figure.shows =
      "Occupancy of one target's reorder buffer of 50 packets, 4 and 16 sources, streams of 32 and "
      "128 packets: small, a quarter to a third of the packets out of order; up to half of the "
      "buffer with bursts; hardly more connections than streams.";
  figure.differs =
      "What routing takes for congestion decides: with the output's own backlog it stays below 50; "
      "counted with credits, packets on a 500 cycle link look like congestion, too, and much more "
      "is reordered in bursts. Twice as many packets as in the paper come early. Fig. 12 (few "
      "connections) waits for lanes with slow and fast mode.";
  figure.x_label = "packets a stream";
  figure.y_label = "packets held, at most";
  figure.y = "reorder_peak";
  struct Variant {
    const char* name;
    bool bursts;
    QueueMetric metric;
  };
  constexpr std::array variants = {Variant{"uniform, backlog", false, QueueMetric::backlog},
                                   Variant{"uniform, credits", false, QueueMetric::credits},
                                   Variant{"bursts, backlog", true, QueueMetric::backlog},
                                   Variant{"bursts, credits", true, QueueMetric::credits}};
  for (const Variant& variant : variants) {
    for (const std::uint32_t sources : {4u, 16u}) {
      for (const std::uint32_t packets : {32u, 128u}) {
        OrderingScenario scenario = base();
        scenario.fabric.switching.metric = variant.metric;
        scenario.sources = sources;
        scenario.targets = 2;
        scenario.stream_packets = packets;
        scenario.load = 1.4 / sources;  // .7 a target
        scenario.bursts = variant.bursts;
        figure.points.push_back(ordering_point(
            size, std::string(variant.name) + ", " + std::to_string(sources) + " sources", packets,
            scenario));
      }
    }
  }
  figure.claims = [](const Results& r) {
    const auto of = [&](const char* series, const char* value) {
      return r.mean(series, 32, value);
    };
    return std::vector<Claim>{
        {"uniform-4", "uniform, 4 sources: packets held, at most", "small, of 50",
         of("uniform, backlog, 4 sources", "reorder_peak")},
        {"uniform-16", "uniform, 16 sources: packets held, at most", "about as many",
         of("uniform, backlog, 16 sources", "reorder_peak")},
        {"bursts-4", "bursts, 4 sources: packets held, at most", "half of 50",
         of("bursts, backlog, 4 sources", "reorder_peak")},
        {"early-4", "uniform, 4 sources: part out of order", "about 1/3: NOT reproduced",
         of("uniform, backlog, 4 sources", "out_of_order")},
        {"early-16", "uniform, 16 sources: part out of order", "about 1/4: NOT reproduced",
         of("uniform, backlog, 16 sources", "out_of_order")},
        {"connections-4", "uniform, 4 sources: streams open at a target, at most",
         "2 or a few more", of("uniform, backlog, 4 sources", "connections")}};
  };
  return figure;
}

}  // namespace weir::sim::figures
