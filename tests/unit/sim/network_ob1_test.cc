// Messages of ranks on the fabric: all are received, in the order that their steps ask for.
#include <gtest/gtest.h>

#include "tools/sim/network/scenario.h"
#include "tools/sim/network/workload.h"

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

TEST(Ob1, EveryWorkloadIsReceivedByEveryProtocol) {
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
        EXPECT_GT(measured.messages.all, 0u);
        EXPECT_EQ(measured.messages.received, measured.messages.all);
        EXPECT_GT(measured.messages.finished_us, 0);
        EXPECT_GE(measured.messages.p99_us, measured.messages.median_us);
        EXPECT_GE(measured.messages.finished_us, measured.messages.longest_us);
      }
    }
  }
}

TEST(Ob1, LostPacketsAreSentAgain) {
  Scenario scenario = small(Pattern::halo_2d, Protocol::push);
  scenario.loss = 0.001;
  scenario.timeout_cycles = 3'000;
  for (const Protocol protocol : {Protocol::push, Protocol::reads}) {
    scenario.protocol = protocol;
    const Measured measured = run(scenario, 1);
    EXPECT_EQ(measured.violation, "");
    EXPECT_GT(measured.retried, 0u);
    EXPECT_EQ(measured.messages.received, measured.messages.all);
  }
}

TEST(Ob1, TheSchedulersConstantMovesTheWorkload) {
  Scenario scenario = small(Pattern::halo_2d, Protocol::reads);
  scenario.message_bytes = 400'000;
  scenario.reads = 1;
  const double one = run(scenario, 1).messages.finished_us;
  scenario.reads = 16;
  EXPECT_LT(run(scenario, 1).messages.finished_us, 0.7 * one);
}

TEST(Ob1, WorkTakesItsTime) {
  Scenario scenario = small(Pattern::wavefront, Protocol::reads);
  const double without = run(scenario, 1).messages.finished_us;
  scenario.work_cycles = 5'000;  // 100 us; the grid is 9 by 8
  EXPECT_GT(run(scenario, 1).messages.finished_us, without + 15 * 100);
}

TEST(Ob1, ATraceIsPlayedInItsOrder) {
  Scenario scenario = small(Pattern::trace, Protocol::reads);
  scenario.trace = {{.cycle = 0, .source = 0, .target = 1, .bytes = 100'000},
                    {.cycle = 0, .source = 1, .target = 2, .bytes = 100'000, .after = 0}};
  const double in_turn = run(scenario, 1).messages.finished_us;
  scenario.trace[1].after = UINT32_MAX;
  const double at_once = run(scenario, 1).messages.finished_us;
  EXPECT_NEAR(in_turn, 2 * at_once, 0.2 * in_turn);
  scenario.trace[1].cycle = 50'000;  // 1 ms
  EXPECT_GT(run(scenario, 1).messages.finished_us, 1'000);
}

TEST(Workload, AStepWaitsForWhatWasSentAndReceivedBefore) {
  const Scenario scenario = small(Pattern::halo_3d, Protocol::reads);
  const Workload workload = make_workload(scenario, 1);
  EXPECT_EQ(workload.messages.size(), 72u * 6 * 3);
  std::uint64_t waits = 0;
  for (const Step& step : workload.steps) waits += step.waits;
  EXPECT_EQ(waits, 2 * workload.messages.size() + 72 * 3);
}

}  // namespace
}  // namespace weir::sim::network
