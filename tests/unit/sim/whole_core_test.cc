// The whole protocol core on the packet-level fabric: every message once and in order (the world
// looks at each), nothing lost or made in core, adapters and fabric, the same seed is the same run,
// what ships decides what comes out, and the processes of a node have no more than what is its.
#include "tools/sim/network/whole_core.h"

#include <gtest/gtest.h>

#include <functional>

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
  EXPECT_GT(measured["messages"], 0u);
  EXPECT_EQ(measured["received"], measured["messages"]);
  EXPECT_GT(measured["finished_us"], 0);
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
          point.fabric.routing = routing;
          point.fabric.vc_flits = 32;
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
  EXPECT_EQ(played(point)["rnr_naks"], 0u);
  point.window_initial = point.window_max = 4;
  const Measured tiny = played(point);
  EXPECT_GT(tiny["rnr_naks"], 0u);
  EXPECT_GT(tiny["overcommitted"], 0u);
}

Outcome changed(const Scenario& point, const std::function<void(Plan&)>& change) {
  Plan plan = core_plan(point, 1);
  change(plan);
  Outcome outcome = sim::run(plan);
  EXPECT_TRUE(outcome.ok()) << outcome.violations.front();
  return outcome;
}

TEST(WholeCore, LimitEventsOpenTheWindowOfBothKindsOfAdapter) {
  for (const SrqLimitStyle style : {SrqLimitStyle::hardware, SrqLimitStyle::rxe}) {
    Scenario point = scenario(dragonfly, Pattern::incast, 4'000);
    point.rounds = 200;
    point.window_initial = 2;
    point.window_max = 1'024;
    const Outcome open = changed(
        point, [&](Plan& plan) { plan.limit_styles.assign(plan.limit_styles.size(), style); });
    EXPECT_GT(open.window, 2);
    EXPECT_LT(open.window, 1'024);
  }
}

// With as much room from the start as is asked for in the end, nothing has to grow; with less than
// a buffer a peer, senders are turned away. What ships is what is played.
TEST(WholeCore, ConstantsOfTheCoreMoveTheResult) {
  Scenario point = scenario(dragonfly, Pattern::incast, 4'000);
  point.rounds = 200;
  const Outcome usual = changed(point, [](Plan&) {});
  const Outcome wide = changed(point, [](Plan& plan) { plan.engine.core.window.initial = 256; });
  const Outcome narrow =
      changed(point, [](Plan& plan) { plan.engine.core.window = {.initial = 4, .max = 4}; });
  EXPECT_EQ(usual.window, played(point)["window"]);
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
}

// Beyond window_unasked W grows for a sender that has no credits left: so it opens all the same.
TEST(WholeCore, AWindowThatHasToBeAskedForOpens) {
  Scenario point = scenario(dragonfly, Pattern::pairs, 4'000);
  point.rounds = 100;
  const Outcome unasked = changed(point, [](Plan&) {});
  const Outcome asked =
      changed(point, [&](Plan& plan) { plan.engine.core.window_unasked = point.window_initial; });
  EXPECT_NE(asked.hash, unasked.hash);
  EXPECT_GT(asked.window, 2 * point.window_initial);
}

// An incast on processes of one node: 4 of them, each with a part of the senders.
Scenario shared_incast(BudgetOf of) {
  Scenario point = scenario(dragonfly, Pattern::incast, 40'000);
  point.processes = 4;
  point.budget_of = of;
  point.reads = 6;
  point.slow = {{1, 4}};
  return point;
}

TEST(WholeCore, TheReadsOfANodeStayWithinItsBudget) {
  const Measured node = played(shared_incast(BudgetOf::node));
  EXPECT_EQ(node["node_reads"], 6u);
  EXPECT_GT(node["node_read_waits"], 0u);
  const Measured process = played(shared_incast(BudgetOf::process));
  EXPECT_GT(process["node_reads"], 6u);
  EXPECT_LE(process["node_reads"], 4 * 6u);
  EXPECT_EQ(process["node_read_waits"], 0u);
  const Measured connection = played(shared_incast(BudgetOf::connection));
  EXPECT_GT(connection["node_reads"], 4 * 6u);
  EXPECT_LE(connection["node_reads"], 11 * 6u);
  EXPECT_EQ(process["messages"], node["messages"]);
  EXPECT_EQ(connection["messages"], node["messages"]);
}

// 30 reads in the node's order cost a slow receiver nothing, and those beside it gain.
TEST(WholeCore, ANodesBudgetKeepsTheFabricFreeForOthers) {
  const auto with = [](BudgetOf of) {
    Scenario point = shared_incast(of);
    point.fabric.topology = {.shape = Shape::dragonfly, .p = 2, .a = 4, .h = 2};
    point.senders = 16;
    point.reads = 16;
    point.rounds = 8;
    return played(point);
  };
  const Measured node = with(BudgetOf::node);
  const Measured connection = with(BudgetOf::connection);
  EXPECT_GT(node["others"], 1.2 * connection["others"]);
  EXPECT_LT(node["finished_us"], 1.01 * connection["finished_us"]);
}

TEST(WholeCore, AdaptiveBudgetsOfProcessesMeetInTheNodes) {
  Scenario point = shared_incast(BudgetOf::node);
  point.adaptive = true;
  const Measured node = played(point);
  EXPECT_GT(node["node_read_waits"], 0u);
  point.budget_of = BudgetOf::process;
  EXPECT_GT(played(point)["node_reads"], node["node_reads"]);
}

TEST(WholeCore, RequestsOfANodeTakeItsTokens) {
  for (const std::uint64_t bytes : {4'000u, 40'000u}) {
    Scenario point = scenario(dragonfly, Pattern::all_to_all, bytes);
    point.processes = 3;
    const Outcome free = changed(point, [](Plan&) {});
    const Outcome limited = changed(point, [](Plan& plan) {
      plan.engine.core.admission.policy = Admission::Policy::always;
      plan.engine.core.admission.tokens = 5;
    });
    EXPECT_EQ(limited.tokens_out_most, 5u);
    EXPECT_GT(limited.total.token_waits, 0u);
    EXPECT_LT(free.last_served, limited.last_served);
  }
}

TEST(WholeCore, ServersSendForTheProcessesOfTheirNode) {
  for (const Pattern pattern : {Pattern::all_to_all, Pattern::halo_2d}) {
    for (const std::uint64_t bytes : {60u, 1'001u, 40'000u}) {
      SCOPED_TRACE(bytes);
      Scenario point = scenario(dragonfly, pattern, bytes);
      point.processes = 3;
      point.rounds = pattern == Pattern::all_to_all ? 35 : 8;
      point.eager_bytes = 1'001;  // cells are of whole words all the same
      const Outcome outcome = changed(point, [](Plan& plan) {
        plan.engine.core.proxy = true;
        plan.engine.proxy_servers = 1;
      });
      EXPECT_GT(outcome.total.proxy_served, 0u);
      EXPECT_LE(outcome.total.proxy_coalesced, outcome.total.proxy_served);
    }
  }
}

TEST(WholeCore, WhatStaysOnANodeIsNotTheFabrics) {
  for (const Pattern pattern : {Pattern::all_to_all, Pattern::halo_2d}) {
    Scenario point = scenario(dragonfly, pattern, 4'000);
    point.processes = 3;
    point.rounds = 35;  // 36 ranks: each to each
    const Plan plan = core_plan(point, 1);
    ASSERT_EQ(plan.scripts.size(), 36u);
    std::uint64_t sent = 0;
    for (std::size_t from = 0; from < plan.scripts.size(); ++from) {
      for (std::size_t to = 0; to < plan.scripts.size(); ++to) {
        sent += plan.scripts[from].messages[to];
        EXPECT_TRUE(from / 3 != to / 3 || plan.scripts[from].messages[to] == 0);
      }
    }
    // Of a grid of 6 * 6: three in a row are a node.
    EXPECT_EQ(sent, pattern == Pattern::all_to_all ? 36u * 33 : (4u * 36 - 4 * 12) * 35);
    played(point);
  }
}

TEST(WholeCore, AQueuePairHasNoMoreReadsUnderWayThanAgreed) {
  Scenario point = scenario(dragonfly, Pattern::pairs, 400'000);
  point.chunk_bytes = 4'096;
  point.reads = 64;
  point.fabric.global_cycles = 500;  // so that what is under way is what counts
  const auto with_reads = [&](std::uint32_t most) {
    return changed(point, [&](Plan& plan) { plan.engine.core.max_rd_atomic = most; })
        .last_served.ns;
  };
  EXPECT_GT(with_reads(1), 2 * with_reads(16));
}

}  // namespace
}  // namespace weir::sim::network
