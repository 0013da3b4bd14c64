// The whole protocol core on the packet-level fabric: every message once and in order (the world
// looks at each), nothing lost or made in core, adapters and fabric, the same seed is the same run,
// and what ships decides what comes out.
#include "tools/sim/network/whole_core.h"

#include <gtest/gtest.h>

namespace weir::sim::network {
namespace {

constexpr Topology dragonfly{.shape = Shape::dragonfly, .p = 2, .a = 2, .h = 1};  // 12 nodes
constexpr Topology tree{.shape = Shape::fat_tree, .p = 4, .leaves = 3, .spines = 2};

Scenario scenario(const Topology& topology, Pattern pattern, std::uint64_t bytes) {
  Scenario scenario;
  scenario.fabric.topology = topology;
  scenario.pattern = pattern;
  scenario.endpoints = EndpointsAre::core;
  scenario.message_bytes = bytes;
  scenario.rounds = pattern == Pattern::all_to_all ? 22 : 12;
  scenario.receivers = pattern == Pattern::incast ? 1 : 0;
  scenario.senders = 11;
  return scenario;
}

Measured played(const Scenario& scenario, std::uint64_t seed = 1) {
  const Measured measured = run(scenario, seed);
  EXPECT_EQ(measured.violation, "");
  EXPECT_GT(measured.messages.all, 0u);
  EXPECT_EQ(measured.messages.received, measured.messages.all);
  EXPECT_GT(measured.messages.finished_us, 0);
  return measured;
}

TEST(WholeCore, EveryMessageArrivesOnceAndInOrder) {
  for (const Topology& topology : {dragonfly, tree}) {
    for (const Pattern pattern :
         {Pattern::all_to_all, Pattern::incast, Pattern::halo_2d, Pattern::pairs}) {
      for (const std::uint64_t bytes : {64u, 4'000u, 100'000u}) {
        for (const Routing routing : {Routing::minimal, Routing::progressive}) {
          SCOPED_TRACE(static_cast<int>(pattern));
          SCOPED_TRACE(bytes);
          Scenario point = scenario(topology, pattern, bytes);
          point.fabric.switching.routing = routing;
          point.fabric.switching.vc_flits = 32;
          point.slow = {{1, 4}};
          played(point);
        }
      }
    }
  }
}

TEST(WholeCore, IsAFunctionOfScenarioAndSeed) {
  const Scenario point = scenario(dragonfly, Pattern::all_to_all, 20'000);
  const Measured one = played(point);
  EXPECT_EQ(one.trace_hash, played(point).trace_hash);
  EXPECT_NE(one.trace_hash, played(point, 2).trace_hash);
  Scenario adaptive = point;
  adaptive.adaptive = true;
  EXPECT_EQ(played(adaptive).trace_hash, played(adaptive).trace_hash);
}

// The window covers the senders' least credits, or it does not.
TEST(WholeCore, ATinyWindowMakesRnrNaks) {
  Scenario point = scenario(tree, Pattern::incast, 4'000);
  point.rounds = 60;
  EXPECT_EQ(played(point).core->rnr_naks, 0u);
  point.window_initial = point.window_max = 4;
  const Measured tiny = played(point);
  EXPECT_GT(tiny.core->rnr_naks, 0u);
  EXPECT_GT(tiny.core->overcommitted, 0u);
}

TEST(WholeCore, LimitEventsOpenTheWindowOfBothKindsOfAdapter) {
  for (const bool rxe : {false, true}) {
    Scenario point = scenario(dragonfly, Pattern::incast, 4'000);
    point.rounds = 200;
    point.window_initial = 2;
    point.window_max = 1'024;
    point.rxe_limit = rxe;
    const Measured open = played(point);
    EXPECT_GT(open.core->window, 2);
    EXPECT_LT(open.core->window, 1'024);
  }
}

// With as much room from the start as is asked for in the end, nothing has to grow; with less than
// a buffer a peer, senders are turned away. What ships is what is played.
TEST(WholeCore, ConstantsOfTheCoreMoveTheResult) {
  Scenario point = scenario(dragonfly, Pattern::incast, 4'000);
  point.rounds = 200;
  const auto with = [&](auto&& change) {
    Plan plan = core_plan(point, 1);
    change(plan.engine.core);
    const Outcome outcome = sim::run(plan);
    EXPECT_TRUE(outcome.ok()) << outcome.violations.front();
    return outcome;
  };
  const Outcome usual = with([](Core::Config&) {});
  const Outcome wide = with([](Core::Config& core) { core.window.initial = 256; });
  const Outcome narrow = with([](Core::Config& core) { core.window = {.initial = 4, .max = 4}; });
  EXPECT_EQ(usual.window, played(point).core->window);
  EXPECT_GT(wide.receive_bytes_peak, usual.receive_bytes_peak);
  EXPECT_LT(narrow.receive_bytes_peak, usual.receive_bytes_peak);
  EXPECT_EQ(usual.rnr_naks, 0u);
  EXPECT_GT(narrow.rnr_naks, 0u);
  EXPECT_NE(wide.wire.hash, usual.wire.hash);
}

TEST(WholeCore, AWindowThatIsLeftToTheTransportIsTheTransports) {
  Scenario point = scenario(dragonfly, Pattern::pairs, 4'000);
  const Core::Config by_itself = core_plan(point, 1).engine.core;
  EXPECT_EQ(by_itself.window.max, 512u);
  EXPECT_EQ(by_itself.window.most, (64u << 20) / by_itself.buffer_bytes);
  EXPECT_EQ(by_itself.window_unasked, 256u);
  point.window_max = 64;
  const Core::Config given = core_plan(point, 1).engine.core;
  EXPECT_EQ(given.window.max, 64u);
  EXPECT_EQ(given.window.most, 0u);
  EXPECT_EQ(given.window_unasked, UINT32_MAX);
  point.window_unasked = 32;
  EXPECT_EQ(core_plan(point, 1).engine.core.window_unasked, 32u);
}

// A window that has to be asked for opens later: when a sender has no credits left.
TEST(WholeCore, BeyondWindowUnaskedLimitEventsDoNotOpenTheWindow) {
  Scenario point = scenario(dragonfly, Pattern::pairs, 4'000);
  point.rounds = 100;
  const Measured soon = played(point);
  point.window_unasked = point.window_initial;
  const Measured late = played(point);
  EXPECT_GT(late.core->window, point.window_initial);
  EXPECT_GT(late.messages.finished_us, soon.messages.finished_us);
}

TEST(WholeCore, AQueuePairHasNoMoreReadsUnderWayThanAgreed) {
  Scenario point = scenario(dragonfly, Pattern::pairs, 400'000);
  point.chunk_bytes = 4'096;
  point.reads = 64;
  point.fabric.switching.global_cycles = 500;  // so that what is under way is what counts
  point.max_rd_atomic = 16;
  const double sixteen = played(point).messages.finished_us;
  point.max_rd_atomic = 1;
  EXPECT_GT(played(point).messages.finished_us, 2 * sixteen);
}

TEST(WholeCore, LostPacketsAreSentAgain) {
  Scenario point = scenario(dragonfly, Pattern::halo_2d, 20'000);
  point.loss = 0.0005;
  point.timeout_cycles = 50'000;
  EXPECT_GT(played(point).lost_packets, 0u);
}

}  // namespace
}  // namespace weir::sim::network
