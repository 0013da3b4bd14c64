// Streams in order over a fabric that reorders: nothing is lost, what is held back is bounded, and
// whoever orders pays what it has to.
#include "tools/sim/network/ordering.h"

#include <gtest/gtest.h>

namespace weir::sim::network {
namespace {

constexpr Ordering orderings[] = {Ordering::unordered, Ordering::at_source, Ordering::at_target,
                                  Ordering::sync_source, Ordering::sync_target};
constexpr double cycles = 30'000;

// One source, its streams one after the other, so all of them end.
OrderingScenario one_by_one(Ordering ordering) {
  OrderingScenario scenario;
  scenario.fabric = ordering_fabric();
  scenario.fabric.topology = {.p = 2, .a = 4, .h = 2};
  scenario.fabric.switching.global_cycles = 100;
  scenario.ordering = ordering;
  scenario.streams = 5;
  scenario.targets = 8;
  scenario.cycles = cycles;
  return scenario;
}

// Many, which get into each other's way: packets overtake each other.
OrderingScenario crowd(Ordering ordering) {
  OrderingScenario scenario = one_by_one(ordering);
  scenario.fabric.switching.metric = QueueMetric::credits;
  scenario.sources = 8;
  scenario.targets = 2;
  scenario.streams = 0;
  scenario.stream_packets = 32;
  scenario.load = 0.2;
  scenario.bursts = true;
  return scenario;
}

TEST(Ordering, EveryStreamIsDeliveredWhole) {
  for (const Ordering ordering : orderings) {
    SCOPED_TRACE(static_cast<int>(ordering));
    const OrderingMeasured measured = run(one_by_one(ordering), 1);
    EXPECT_EQ(measured.violation, "");
    EXPECT_NEAR(measured.throughput * cycles, 5 * 10 * 16, 1e-6);
    EXPECT_EQ(measured.connections_peak, 1u);
    EXPECT_GT(measured.events, 0u);
  }
}

TEST(Ordering, TheSourceThatOrdersHasOnePacketUnderWay) {
  const OrderingMeasured measured = run(crowd(Ordering::at_source), 1);
  EXPECT_EQ(measured.violation, "");
  EXPECT_EQ(measured.out_of_order, 0);
  EXPECT_EQ(measured.reorder_peak, 0u);
  const double at_source = run(one_by_one(Ordering::at_source), 1).stream_latency;
  const double at_target = run(one_by_one(Ordering::at_target), 1).stream_latency;
  const double round_trip = 2 * 100;  // at least: the link between the groups
  EXPECT_GT(at_source, at_target + 9 * round_trip);
}

TEST(Ordering, ATargetHoldsOnlyWhatItsModeHasToOrder) {
  const OrderingMeasured none = run(crowd(Ordering::unordered), 1);
  EXPECT_GT(none.out_of_order, 0);
  EXPECT_EQ(none.reorder_peak, 0u);
  const OrderingMeasured all = run(crowd(Ordering::at_target), 1);
  EXPECT_EQ(all.out_of_order, none.out_of_order);  // the same packets: holding back costs none
  EXPECT_EQ(all.throughput, none.throughput);
  EXPECT_GT(all.reorder_peak, 0u);
  EXPECT_LT(all.reorder_peak, all.connections_peak * 32);
  const OrderingMeasured last = run(crowd(Ordering::sync_target), 1);
  EXPECT_LE(last.reorder_peak, last.connections_peak);
  EXPECT_LT(last.reorder_peak, all.reorder_peak);
}

TEST(Ordering, SynchronizationAtTheSourceCostsARoundTrip) {
  const double source = run(one_by_one(Ordering::sync_source), 1).stream_latency;
  const double target = run(one_by_one(Ordering::sync_target), 1).stream_latency;
  EXPECT_GT(source, target + 2 * 100);
  EXPECT_EQ(target, run(one_by_one(Ordering::at_target), 1).stream_latency);
}

TEST(Ordering, TheSameSeedIsTheSameRun) {
  const OrderingMeasured first = run(crowd(Ordering::at_target), 5);
  EXPECT_EQ(first.trace_hash, run(crowd(Ordering::at_target), 5).trace_hash);
  EXPECT_NE(first.trace_hash, run(crowd(Ordering::at_target), 6).trace_hash);
}

}  // namespace
}  // namespace weir::sim::network
