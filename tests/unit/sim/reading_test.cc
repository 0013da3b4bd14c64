// Models of adapters on the fabric, whose receivers are the transport's: what rendezvous/ decides
// is what the figures show.
#include <gtest/gtest.h>

#include "tools/sim/network/scenario.h"

namespace weir::sim::network {
namespace {

Scenario reading(std::uint32_t reads) {
  Scenario scenario;
  scenario.fabric.topology = {.shape = Shape::dragonfly, .p = 2, .a = 4, .h = 2};
  scenario.protocol = Protocol::reads;
  scenario.reads = reads;
  scenario.from_cycles = 1'000;
  scenario.to_cycles = 4'000;
  return scenario;
}

TEST(Reading, TheSchedulersConstantMovesTheFigure) {
  const Measured two = run(reading(2), 1);
  const Measured eight = run(reading(8), 1);
  EXPECT_EQ(two.violation, "");
  EXPECT_EQ(two["reads"], 2);
  EXPECT_EQ(eight["reads"], 8);
  EXPECT_GT(eight["throughput"], 1.2 * two["throughput"]);
}

TEST(Reading, TheControllersQueueMovesTheFigure) {
  Scenario scenario = reading(0);
  scenario.adaptive = true;
  scenario.queue_bytes = 2 * packet_bytes;
  const Measured little = run(scenario, 1);
  scenario.queue_bytes = 32 * packet_bytes;
  const Measured much = run(scenario, 1);
  EXPECT_EQ(much.violation, "");
  EXPECT_GT(much["reads"], 1.5 * little["reads"]);
  EXPECT_GT(much["latency_cycles"], 1.5 * little["latency_cycles"]);
}

TEST(Reading, ABudgetIsTheNodesForAllOfItsTransfers) {
  Scenario scenario = reading(8);
  scenario.pattern = Pattern::incast;
  scenario.receivers = 72;
  scenario.senders = 4;
  EXPECT_EQ(run(scenario, 1)["reads"], 8);
}

TEST(Reading, ChunksOfManyPacketsArriveWhole) {
  Scenario scenario = reading(4);
  scenario.chunk_bytes = 5 * packet_bytes + 100;
  const Measured measured = run(scenario, 1);
  EXPECT_EQ(measured.violation, "");
  EXPECT_GT(measured["throughput"], 0.3);
}

TEST(Reading, ASlowReceiverGetsWhatItCanTake) {
  Scenario scenario = reading(8);
  scenario.fabric.topology = {.shape = Shape::single_switch, .ports = 2};
  scenario.slow = {{1, 8}};
  const Measured measured = run(scenario, 1);
  EXPECT_NEAR(measured["throughput"], (1 + 1.0 / 8) / 2, 0.05);
}

}  // namespace
}  // namespace weir::sim::network
