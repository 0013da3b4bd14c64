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
  figure.x_label = "packets a stream";
  figure.y_label = "a stream's latency, cycles";
  figure.y = "stream_latency";
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
  figure.title = "Ordering costs no throughput when the target does it";
  figure.source = "[ORD] Fig. 8(a)";
  figure.shows =
      "Maximum accepted load over the packet length, streams of 10 packets: close to the link "
      "without ordering and with target-side ordering, although a third of the packets comes "
      "early; a small fraction with source-side ordering.";
  figure.differs =
      "The target's order and what a source has outstanding are transport/lane's; each packet is "
      "acknowledged. Not in the paper: what packets wait until they are next.";
  figure.x_label = "flits a packet";
  figure.y_label = "throughput, flits a cycle";
  figure.log_y = true;
  for (const Mode& mode : {unordered, at_source, at_target}) {
    for (const std::uint32_t flits : {8u, 16u, 32u}) {
      const OrderingScenario scenario{.ordering = mode.ordering, .flits = flits};
      figure.points.push_back(ordering_point(mode.name, flits, scenario, seeds(size)));
    }
  }
  figure.claims = [](const Results& r) {
    const auto of_none = [&](const Mode& mode, const char* value) {
      return r.mean(mode.name, 16, value) / r.mean(unordered.name, 16, value);
    };
    return Values{{"target", r.mean(at_target.name, 16)},
                  {"source-of-none", of_none(at_source, "throughput")},
                  {"early", r.mean(at_target.name, 16, "early")},
                  {"wait", of_none(at_target, "packet_latency")}};
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
  figure.differs =
      "Ours reorders less in such short streams: nothing of 10 packets, a sixth of 40; in the "
      "paper a third. That the target's order costs a stream nothing is true by construction here, "
      "and a unit test.";
  figure.log_y = true;
  add_latencies(figure, size, std::array{unordered, at_source, at_target});
  figure.claims = [](const Results& r) {
    const auto latency = [&](const Mode& mode, double packets) {
      return r.mean(mode.name, packets, "stream_latency");
    };
    return Values{{"source-of-target", latency(at_source, 40) / latency(at_target, 40)},
                  {"source-40-of-10", latency(at_source, 40) / latency(at_source, 10)}};
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
  figure.differs =
      "A round trip over the shortest path is some 1,160 cycles. The two of the target are the "
      "same by construction here, but one holds a packet at most, the other up to 4.";
  add_latencies(figure, size, std::array{sync_source, sync_target, at_target});
  figure.claims = [](const Results& r) {
    const auto latency = [&](const Mode& mode, double packets) {
      return r.mean(mode.name, packets, "stream_latency");
    };
    return Values{{"saved-10", latency(sync_source, 10) - latency(sync_target, 10)},
                  {"saved-40", latency(sync_source, 40) - latency(sync_target, 40)},
                            {"held", r.mean(sync_target.name, 40, "held_mean") /
                               r.mean(at_target.name, 40, "held_mean")}};
  };
  return figure;
}

Figure ord_fig11(Size size) {
  Figure figure;
  figure.title = "How much a target has to hold back";
  figure.source = "[ORD] Fig. 11";
  figure.shows =
      "Occupancy of one target's reorder buffer of 50 packets, 4 and 16 sources, streams of 32 and "
      "128 packets: small, whatever the number of streams, while a third and a quarter of the "
      "packets come early; half of the buffer with two sources that send in bursts; somewhat more "
      "connections than streams.";
  figure.differs =
      "Packets leave their shortest path for 200 flits, in bursts for 400: the paper, too, makes "
      "them leave it less often there, and does not say how much less.";
  figure.x_label = "packets a stream";
  figure.y_label = "packets held, at most";
  figure.y = "held_peak";
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
    const auto of = [&](const char* what, std::uint32_t sources, const char* value) {
      return r.mean(sources_of(what, sources), 128, value);
    };
    return Values{{"held-4", of("uniform", 4, "held_peak")},
                  {"held-16", of("uniform", 16, "held_peak")},
                  {"held-bursts", of("bursts", 2, "held_peak")},
                  {"early-4", of("uniform", 4, "early")},
                  {"early-16", of("uniform", 16, "early")},
                  {"connections-4", of("uniform", 4, "connections_mean") / 2},
                  {"connections-16", of("uniform", 16, "connections_mean") / 8}};
  };
  return figure;
}

Figure ord_fig12(Size size) {
  Figure figure;
  figure.title = "Two connections a target: no more than half a buffer outstanding";
  figure.source = "[ORD] Fig. 12";
  figure.shows =
      "As Fig. 11, with two connections a target and 50 packets held at most: the buffer fills up, "
      "and with 4 sources and streams of 128 packets about 5 % of the packets are dropped. With at "
      "most 25 packets of a stream outstanding none are.";
  figure.differs =
      "Whether anything is dropped is chance: in half of the runs nothing is, in others a quarter; "
      "the paper shows one. A target's ACK says whether there is a connection; then what was "
      "refused is sent again at once, else one packet at a time. Not in the paper: what so small a "
      "window costs a stream that has the link for itself (1 source).";
  figure.x_label = "packets a stream";
  figure.y_label = "packets held, at most";
  figure.y = "held_peak";
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
  figure.claims = [](const Results& r) {
    const auto any = [&](std::uint32_t sources, double packets, const char* value) {
      return r.mean(sources_of("any number outstanding", sources), packets, value);
    };
    const auto half = [&](std::uint32_t sources, double packets, const char* value) {
      return r.mean(sources_of("25 outstanding", sources), packets, value);
    };
    return Values{{"dropped", any(4, 128, "dropped")},
                  {"drops-half", half(4, 128, "drops")},
                  {"held", any(4, 128, "held_peak")},
                  {"held-half", half(4, 128, "held_peak")},
                  {"latency-half", half(4, 128, "packet_latency") / any(4, 128, "packet_latency")},
                  {"alone-half", half(1, 256, "throughput") / any(1, 256, "throughput")}};
  };
  return figure;
}

}  // namespace weir::sim::figures
