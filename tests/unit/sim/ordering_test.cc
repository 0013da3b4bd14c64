// Streams in order over a fabric that reorders: the windows that ship have a place for every
// packet, what is held is bounded, and whoever orders pays what it has to.
#include "tools/sim/network/ordering.h"

#include <gtest/gtest.h>

namespace weir::sim::network {
namespace {

constexpr Ordering orderings[] = {Ordering::unordered, Ordering::at_source, Ordering::at_target,
                                  Ordering::sync_source, Ordering::sync_target};
constexpr double round_trip = 2 * 100;  // at least: the link between the groups

// One source, its streams one after the other.
OrderingScenario one_by_one(Ordering ordering) {
  OrderingScenario scenario;
  scenario.fabric.topology = {.p = 2, .a = 4, .h = 2};
  scenario.fabric.switching.global_cycles = 100;
  scenario.fabric.switching.threshold = 60;
  scenario.ordering = ordering;
  scenario.targets = 8;
  scenario.one_by_one = true;
  scenario.to_cycles = 20'000;
  return scenario;
}

// Many, which get into each other's way.
OrderingScenario crowd(Ordering ordering) {
  OrderingScenario scenario = one_by_one(ordering);
  scenario.one_by_one = false;
  scenario.sources = 8;
  scenario.targets = 2;
  scenario.stream_packets = 32;
  scenario.load = 0.1;
  scenario.bursts = true;
  return scenario;
}

TEST(Ordering, EveryoneDeliversWholeStreams) {
  for (const Ordering ordering : orderings) {
    SCOPED_TRACE(static_cast<int>(ordering));
    const Measured alone = run(one_by_one(ordering), 1);
    EXPECT_EQ(alone.violation, "");
    EXPECT_GT(alone["stream_latency"], 0);
    EXPECT_LE(alone["connections_mean"], 1);
    const Measured many = run(crowd(ordering), 1);
    EXPECT_EQ(many.violation, "");
    EXPECT_GT(many["stream_latency"], 0);
    EXPECT_GT(many.events, 0u);
  }
}

TEST(Ordering, TheSourceThatOrdersHasOnePacketUnderWay) {
  const Measured measured = run(crowd(Ordering::at_source), 1);
  EXPECT_EQ(measured["early"], 0);
  EXPECT_EQ(measured["connections_mean"], 0);
  EXPECT_GT(run(one_by_one(Ordering::at_source), 1)["stream_latency"],
            run(one_by_one(Ordering::at_target), 1)["stream_latency"] + 9 * round_trip);
}

TEST(Ordering, ATargetHoldsOnlyWhatItsModeHasToOrder) {
  const Measured none = run(crowd(Ordering::unordered), 1);
  EXPECT_GT(none["early"], 0);
  EXPECT_EQ(none["held_peak"], 0);
  const Measured all = run(crowd(Ordering::at_target), 1);
  EXPECT_EQ(all.trace_hash, none.trace_hash);  // the same packets: holding back costs none
  EXPECT_EQ(all["stream_latency"], none["stream_latency"]);
  EXPECT_GT(all["packet_latency"], none["packet_latency"]);
  EXPECT_GT(all["held_peak"], 0);
  const Measured last = run(crowd(Ordering::sync_target), 1);
  EXPECT_GT(last["held_peak"], 0);
  EXPECT_LT(last["held_mean"], all["held_mean"]);
  EXPECT_LT(last["packet_latency"], all["packet_latency"]);
}

TEST(Ordering, SynchronizationAtTheSourceCostsARoundTrip) {
  const double target = run(one_by_one(Ordering::sync_target), 1)["stream_latency"];
  EXPECT_GT(run(one_by_one(Ordering::sync_source), 1)["stream_latency"], target + round_trip);
  EXPECT_EQ(run(one_by_one(Ordering::at_target), 1)["stream_latency"], target);
}

TEST(Ordering, TheSendWindowMovesTheFigure) {
  OrderingScenario scenario = one_by_one(Ordering::at_target);
  scenario.stream_packets = 200;
  scenario.places = 4;
  const Measured two = run(scenario, 1);
  scenario.places = 64;
  EXPECT_GT(run(scenario, 1)["throughput"], 4 * two["throughput"]);
  EXPECT_LE(two["held_peak"], 1);  // of two outstanding
}

TEST(Ordering, HalfOfTheBufferOutstandingCuresDrops) {
  OrderingScenario scenario = crowd(Ordering::at_target);
  scenario.buffer = 8;
  scenario.connections = 2;
  const Measured any = run(scenario, 1);
  EXPECT_EQ(any.violation, "");
  EXPECT_EQ(any["held_peak"], 8);
  EXPECT_GT(any["dropped"], 0.01);
  scenario.places = 8;  // each of two connections has no more than 4 outstanding
  const Measured half = run(scenario, 1);
  EXPECT_EQ(half.violation, "");
  EXPECT_EQ(half["drops"], 0);
  EXPECT_LT(half["held_peak"], 8);
  EXPECT_GT(half["held_peak"], 0);
}

// A packet that nothing is missing before needs neither.
TEST(Ordering, StreamsEndWithoutConnectionsAndRoom) {
  for (const auto ordering : {Ordering::at_target, Ordering::sync_target}) {
    OrderingScenario scenario = crowd(ordering);
    scenario.load = 0.02;
    scenario.connections = 1;
    scenario.buffer = 1;
    scenario.to_cycles = 60'000;
    const Measured measured = run(scenario, 1);
    EXPECT_EQ(measured.violation, "");
    EXPECT_GT(measured["refused"], 0);
    EXPECT_GT(measured["throughput"], 0.9 * 0.02);
  }
}

TEST(Ordering, TheSameSeedIsTheSameRun) {
  const Measured first = run(crowd(Ordering::at_target), 5);
  EXPECT_EQ(first.trace_hash, run(crowd(Ordering::at_target), 5).trace_hash);
  EXPECT_NE(first.trace_hash, run(crowd(Ordering::at_target), 6).trace_hash);
}

}  // namespace
}  // namespace weir::sim::network
