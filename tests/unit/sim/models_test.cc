// Models of adapters on the fabric: all messages of ranks are received, in the order that their
// steps ask for; and the receivers are the transport's: what rendezvous/ decides is what the
// figures show.
#include <gtest/gtest.h>

#include "tools/sim/network/scenario.h"

namespace weir::sim::network {
namespace {

Scenario small(Pattern pattern, Protocol protocol) {
  Scenario scenario;
  scenario.fabric.topology = {.shape = Shape::dragonfly, .p = 2, .a = 4, .h = 2};
  scenario.pattern = pattern;
  scenario.protocol = protocol;
  scenario.rounds = 3;
  scenario.message_bytes = 40'000;
  scenario.from_cycles = 0;
  scenario.to_cycles = 500'000;
  return scenario;
}

TEST(Models, EveryWorkloadIsReceivedByEveryProtocol) {
  for (const Pattern pattern :
       {Pattern::halo_2d, Pattern::halo_3d, Pattern::wavefront, Pattern::all_to_all}) {
    for (const Protocol protocol : {Protocol::push, Protocol::reads}) {
      for (const std::uint64_t bytes :
           {std::uint64_t{0}, std::uint64_t{1'000}, std::uint64_t{40'000}}) {
        SCOPED_TRACE(static_cast<int>(pattern));
        Scenario scenario = small(pattern, protocol);
        scenario.message_bytes = bytes;
        const Measured measured = run(scenario, 1);
        EXPECT_EQ(measured.violation, "");
        EXPECT_GT(measured["messages"], 0u);
        EXPECT_EQ(measured["received"], measured["messages"]);
        EXPECT_GT(measured["finished_us"], 0);
        EXPECT_GE(measured["p99_us"], measured["median_us"]);
        EXPECT_GE(measured["finished_us"], measured["longest_us"]);
      }
    }
  }
}

TEST(Models, TheSchedulersConstantMovesTheWorkload) {
  Scenario scenario = small(Pattern::halo_2d, Protocol::reads);
  scenario.message_bytes = 400'000;
  scenario.reads = 1;
  const double one = run(scenario, 1)["finished_us"];
  scenario.reads = 16;
  EXPECT_LT(run(scenario, 1)["finished_us"], 0.7 * one);
}

TEST(Models, WorkTakesItsTime) {
  Scenario scenario = small(Pattern::wavefront, Protocol::reads);
  const double without = run(scenario, 1)["finished_us"];
  scenario.work_cycles = 5'000;  // 100 us; the grid is 9 by 8
  EXPECT_GT(run(scenario, 1)["finished_us"], without + 15 * 100);
}

TEST(Models, ATraceIsPlayedInItsOrder) {
  Scenario scenario = small(Pattern::trace, Protocol::reads);
  scenario.trace = {{.cycle = 0, .source = 0, .target = 1, .bytes = 100'000},
                    {.cycle = 0, .source = 1, .target = 2, .bytes = 100'000, .after = 0}};
  const double in_turn = run(scenario, 1)["finished_us"];
  scenario.trace[1].after = UINT32_MAX;
  const double at_once = run(scenario, 1)["finished_us"];
  EXPECT_NEAR(in_turn, 2 * at_once, 0.2 * in_turn);
  scenario.trace[1].cycle = 50'000;  // 1 ms
  EXPECT_GT(run(scenario, 1)["finished_us"], 1'000);
}

TEST(Workload, AStepWaitsForWhatWasSentAndReceivedBefore) {
  const Scenario scenario = small(Pattern::halo_3d, Protocol::reads);
  const Workload workload = make_workload(scenario, 1);
  EXPECT_EQ(workload.messages.size(), 72u * 6 * 3);
  std::uint64_t waits = 0;
  for (const Step& step : workload.steps) waits += step.waits;
  EXPECT_EQ(waits, 2 * workload.messages.size() + 72 * 3);
}

Scenario reading(std::uint32_t reads) {
  Scenario scenario;
  scenario.fabric.topology = {.shape = Shape::dragonfly, .p = 2, .a = 4, .h = 2};
  scenario.protocol = Protocol::reads;
  scenario.reads = reads;
  scenario.from_cycles = 1'000;
  scenario.to_cycles = 4'000;
  return scenario;
}

TEST(Models, TheSchedulersConstantMovesTheFigure) {
  const Measured two = run(reading(2), 1);
  const Measured eight = run(reading(8), 1);
  EXPECT_EQ(two.violation, "");
  EXPECT_EQ(two["reads"], 2);
  EXPECT_EQ(eight["reads"], 8);
  EXPECT_GT(eight["throughput"], 1.2 * two["throughput"]);
}

TEST(Models, TheControllersQueueMovesTheFigure) {
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

TEST(Models, ABudgetIsTheNodesOrTheTransfers) {
  Scenario scenario = reading(8);
  scenario.pattern = Pattern::incast;
  scenario.receivers = 72;
  scenario.senders = 4;
  EXPECT_EQ(run(scenario, 1)["reads"], 8);
  scenario.budget_of = BudgetOf::transfer;
  EXPECT_EQ(run(scenario, 1)["reads"], 32);
}

TEST(Models, ChunksOfManyPacketsArriveWhole) {
  Scenario scenario = reading(4);
  scenario.chunk_bytes = 5 * packet_bytes + 100;
  const Measured measured = run(scenario, 1);
  EXPECT_EQ(measured.violation, "");
  EXPECT_GT(measured["throughput"], 0.3);
}

TEST(Models, ASlowReceiverGetsWhatItCanTake) {
  Scenario scenario = reading(8);
  scenario.fabric.topology = {.shape = Shape::single_switch, .ports = 2};
  scenario.slow = {{1, 8}};
  const Measured measured = run(scenario, 1);
  EXPECT_NEAR(measured["throughput"], (1 + 1.0 / 8) / 2, 0.05);
}

}  // namespace
}  // namespace weir::sim::network
