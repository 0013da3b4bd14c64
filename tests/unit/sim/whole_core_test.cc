// The whole protocol core on the packet-level fabric: every message once and in order (the world
// looks at each), nothing lost or made in core, adapters and fabric, the same seed is the same run,
// what ships decides what comes out, the processes of a node have no more than what is its, and
// ranks wait for what they need.
#include "tools/sim/network/whole_core.h"

#include <gtest/gtest.h>

#include <cmath>

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
  EXPECT_EQ(played(point)["rnr_naks"], 0u);
  point.window_initial = point.window_max = 4;
  const Measured tiny = played(point);
  EXPECT_GT(tiny["rnr_naks"], 0u);
  EXPECT_GT(tiny["overcommitted"], 0u);
}

TEST(WholeCore, LimitEventsOpenTheWindowOfBothKindsOfAdapter) {
  for (const bool rxe : {false, true}) {
    Scenario point = scenario(dragonfly, Pattern::incast, 4'000);
    point.rounds = 200;
    point.window_initial = 2;
    point.window_max = 1'024;
    point.rxe_limit = rxe;
    const Measured open = played(point);
    EXPECT_GT(open["window"], 2);
    EXPECT_LT(open["window"], 1'024);
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
  point.window_unasked = 32;
  EXPECT_EQ(core_plan(point, 1).engine.core.window_unasked, 32u);
}

// Beyond window_unasked W grows for a sender that has no credits left: so it opens all the same.
TEST(WholeCore, AWindowThatHasToBeAskedForOpens) {
  Scenario point = scenario(dragonfly, Pattern::pairs, 4'000);
  point.rounds = 100;
  const Measured unasked = played(point);
  point.window_unasked = point.window_initial;
  const Measured asked = played(point);
  EXPECT_NE(asked.trace_hash, unasked.trace_hash);
  EXPECT_GT(asked["window"], 2 * point.window_initial);
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
  const Measured connection = played(shared_incast(BudgetOf::transfer));
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
  const Measured connection = with(BudgetOf::transfer);
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
    point.tokens = 5;
    const Outcome outcome = sim::run(core_plan(point, 1));
    EXPECT_TRUE(outcome.ok()) << outcome.violations.front();
    EXPECT_EQ(outcome.tokens_out_most, 5u);
    EXPECT_GT(outcome.total.token_waits, 0u);
    const double limited = played(point)["finished_us"];
    point.tokens = 0;
    EXPECT_LT(played(point)["finished_us"], limited);
  }
}

// Algorithm 1 with tables that are never reached, always, and in between.
TEST(WholeCore, BelowTheThresholdsRequestsGoStraightThrough) {
  Scenario point = scenario(dragonfly, Pattern::all_to_all, 4'000);
  point.processes = 3;
  point.rounds = 35;
  point.tokens = 5;
  const Measured all = played(point);
  EXPECT_EQ(all["straight_through"], 0u);
  EXPECT_GE(all["token_requests"], all["messages"]);
  EXPECT_GT(all["token_waits"], 0u);

  point.thresholds = true;
  const Measured none = played(point);
  EXPECT_EQ(none["token_requests"], 0u);
  EXPECT_EQ(none["token_waits"], 0u);
  EXPECT_LT(none["finished_us"], all["finished_us"]);

  Scenario always = point;
  always.cct = "4KiB=1";
  EXPECT_EQ(played(always).trace_hash, all.trace_hash);

  for (const bool of_the_node : {true, false}) {
    Scenario some = point;
    (of_the_node ? some.nrct : some.crct) = of_the_node ? "8KiB=5" : "1@8KiB=2";
    const Measured measured = played(some);
    EXPECT_GT(measured["token_requests"], 0u);
    EXPECT_GT(measured["straight_through"], 0u);
    EXPECT_LT(measured["finished_us"], all["finished_us"] * 1.01);
  }
}

TEST(WholeCore, TablesAreReadAsTheTransportReadsThem) {
  Scenario point = scenario(dragonfly, Pattern::pairs, 4'000);
  point.tokens = 7;
  point.thresholds = true;
  point.nrct = "64B=12, 4KiB=8";
  const Admission::Config admission = core_plan(point, 1).engine.core.admission;
  EXPECT_EQ(admission.policy, Admission::Policy::thresholds);
  EXPECT_EQ(admission.tokens, 7u);
  EXPECT_EQ(admission.thresholds.nrct(64), 12u);
  EXPECT_EQ(admission.thresholds.nrct(1 << 20), 8u);
  EXPECT_EQ(admission.thresholds.cct(64), Thresholds::no_limit);
}

TEST(WholeCore, ServersSendForTheProcessesOfTheirNode) {
  for (const Pattern pattern : {Pattern::all_to_all, Pattern::halo_2d}) {
    for (const std::uint64_t bytes : {60u, 1'001u, 40'000u}) {
      for (const bool wait : {false, true}) {
        SCOPED_TRACE(static_cast<int>(pattern));
        SCOPED_TRACE(bytes);
        SCOPED_TRACE(wait);
        Scenario point = scenario(dragonfly, pattern, bytes);
        point.processes = 3;
        point.rounds = pattern == Pattern::all_to_all ? 35 : 8;
        point.steps_wait = wait;
        point.eager_bytes = 1'001;  // cells are of whole words all the same
        point.proxy_servers = wait ? 2 : 1;
        const Measured measured = played(point);
        EXPECT_GT(measured["proxy_served"], 0u);
        EXPECT_LE(measured["proxy_coalesced"], measured["proxy_served"]);
        EXPECT_EQ(played(point).trace_hash, measured.trace_hash);
        point.tokens = 5;
        EXPECT_GT(played(point)["token_requests"], 0u);
      }
    }
  }
}

// One server of three processes: its queue pairs alone are used, a third of the node's.
TEST(WholeCore, AServerNeedsFewerContexts) {
  Scenario point = scenario(dragonfly, Pattern::all_to_all, 1'000);
  point.processes = 3;
  point.rounds = 280;
  point.context_cache = 40;
  const Measured each = played(point);
  point.proxy_servers = 1;
  const Measured served = played(point);
  EXPECT_GT(served["proxy_served"], served["messages"] / 5);
  EXPECT_LT(served["context_misses"], each["context_misses"]);
}

// Each of 12 nodes with each other: 11 queue pairs of an adapter, which it has had since they were
// connected.
TEST(WholeCore, ACacheForAllQueuePairsMissesNothing) {
  Scenario point = scenario(dragonfly, Pattern::all_to_all, 4'000);
  point.rounds = 88;  // long, beside a turn of a process
  const Measured without = played(point);
  EXPECT_TRUE(std::isnan(without["context_misses"]));
  point.context_cache = 11;
  const Measured all = played(point);
  EXPECT_EQ(all["context_misses"], 0u);
  EXPECT_GE(all["contexts_needed"], 2 * (all["messages"] - 132));
  EXPECT_NEAR(all["mean_us"], without["mean_us"], 0.05 * without["mean_us"]);
  EXPECT_EQ(all.trace_hash, played(point).trace_hash);
  point.context_cache = 4;
  const Measured few = played(point);
  EXPECT_GT(few["context_misses"], few["contexts_needed"] / 4);
  EXPECT_GT(few["mean_us"], all["mean_us"]);
  point.context_miss_ns *= 10;
  EXPECT_GT(played(point)["mean_us"], 2 * few["mean_us"]);
}

// Three processes of a node have 33 queue pairs to other nodes each, and one adapter.
TEST(WholeCore, ProcessesOfANodeShareItsContexts) {
  Scenario point = scenario(dragonfly, Pattern::all_to_all, 4'000);
  point.processes = 3;
  point.rounds = 35;
  point.context_cache = 99;
  EXPECT_EQ(played(point)["context_misses"], 0u);
  point.context_cache = 33;
  const Measured few = played(point);
  EXPECT_GT(few["context_misses"], few["contexts_needed"] / 4);
}

// As many requests out as there are contexts, or fewer: none is driven out.
TEST(WholeCore, TokensKeepRequestsWithinTheContexts) {
  Scenario point = scenario(dragonfly, Pattern::all_to_all, 4'000);
  point.processes = 3;
  point.rounds = 70;
  point.context_cache = 24;
  point.context_of = ContextOf::request;
  const Measured free = played(point);
  EXPECT_GT(free["context_misses"], free["messages"] / 4);
  point.tokens = 12;  // and room for frames without messages
  const Measured limited = played(point);
  EXPECT_LT(limited["context_misses"], free["context_misses"] / 4);
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

Scenario stepping(Pattern pattern, std::uint64_t bytes, std::uint32_t processes = 1) {
  Scenario point = scenario(dragonfly, pattern, bytes);
  point.rounds = 6;
  point.processes = processes;
  point.steps_wait = true;
  return point;
}

TEST(WholeCore, RanksTakeTheirStepsToTheEnd) {
  for (const Pattern pattern :
       {Pattern::halo_2d, Pattern::halo_3d, Pattern::wavefront, Pattern::all_to_all}) {
    for (const std::uint64_t bytes : {0u, 4'000u, 40'000u}) {
      for (const std::uint32_t processes : {1u, 3u}) {
        SCOPED_TRACE(static_cast<int>(pattern));
        SCOPED_TRACE(bytes);
        Scenario point = stepping(pattern, bytes, processes);
        const Measured measured = played(point);
        EXPECT_GT(measured["median_us"], 0);
        EXPECT_LE(measured["p99_us"], measured["longest_us"]);
        point.work_cycles = 1'000;
        EXPECT_GT(played(point)["finished_us"], measured["finished_us"]);
        point.slow = {{1, 4}};
        EXPECT_EQ(played(point).trace_hash, played(point).trace_hash);
      }
    }
  }
  Scenario lossy = stepping(Pattern::halo_2d, 20'000);
  lossy.fabric.loss = 0.0005;
  lossy.timeout_cycles = 50'000;
  EXPECT_GT(played(lossy)["lost_packets"], 0u);
}

// From corner to corner of a grid of 4 * 3: five messages, and what ranks compute before each.
TEST(WholeCore, AWavefrontIsNoShorterThanItsLongestWay) {
  Scenario point = stepping(Pattern::wavefront, 40'000);
  point.rounds = 1;
  const double at_once = played(point)["finished_us"];
  EXPECT_GT(at_once, 5 * 3);  // 40,000 bytes are 3.1 us
  point.work_cycles = 1'000;  // 20 us
  EXPECT_GT(played(point)["finished_us"], 5 * (20 + 3));
  point.work_cycles = 0;
  point.steps_wait = false;
  EXPECT_LT(played(point)["finished_us"], at_once);
}

TEST(WholeCore, AMessageOfATraceComesAfterWhatItNeeds) {
  Scenario point = scenario(dragonfly, Pattern::trace, 0);
  point.steps_wait = true;
  point.trace = {{.source = 0, .target = 3, .bytes = 100'000}};
  const double one = played(point)["finished_us"];
  point.trace.push_back({.source = 3, .target = 6, .bytes = 100'000});
  point.trace.push_back({.source = 6, .target = 9, .bytes = 100'000});
  EXPECT_LT(played(point)["finished_us"], 1.5 * one);
  point.trace[1].after = 0;
  point.trace[2].after = 1;
  EXPECT_GT(played(point)["finished_us"], 2.5 * one);
  point.trace[1].cycle = 50'000;  // 1 ms
  EXPECT_GT(played(point)["finished_us"], 1'000 + 1.5 * one);
}

// Two programs that have in common what ships, the fabric and the steps.
TEST(WholeCore, TakesTheTimeThatModelsTake) {
  for (const Pattern pattern : {Pattern::halo_2d, Pattern::wavefront, Pattern::all_to_all}) {
    SCOPED_TRACE(static_cast<int>(pattern));
    Scenario point = stepping(pattern, 200'000);
    const double core = played(point)["finished_us"];
    point.endpoints = EndpointsAre::models;
    point.protocol = Protocol::reads;
    point.from_cycles = 0;
    point.to_cycles = 1'000'000;
    const double models = run(point, 1)["finished_us"];
    EXPECT_GT(core, 0.9 * models);
    EXPECT_LT(core, 1.3 * models);
  }
}

// One message of each kind to a rank that computes first, and what must not be.
TEST(WholeCore, AMessageIsFetchedWhenItsReceiveIsPosted) {
  Fabric fabric({}, {}, 1);
  Workload workload;
  workload.messages = {
      {.source = 0, .target = 1, .bytes = 100, .on_sent = {}, .on_received = {}},
      {.source = 0, .target = 1, .bytes = 9'000, .on_sent = {}, .on_received = {}}};
  workload.steps = {{.node = 0, .receives = {}, .sends = {0, 1}},
                    {.node = 1, .work_cycles = 500, .receives = {0, 1}, .sends = {}}};
  Ranks ranks(fabric, workload, {.ranks = 2, .eager_bytes = 4'096, .announcement_bytes = 64});
  int woken = 0;
  ranks.begin([&](Node) { ++woken; });
  ASSERT_TRUE(ranks.next(0));
  EXPECT_EQ(ranks.next(0)->frame_bytes, 100u);
  ranks.sent(0);
  EXPECT_EQ(ranks.next(0)->frame_bytes, 64u);
  ranks.sent(0);
  EXPECT_FALSE(ranks.next(0));
  ranks.arrived(0, 1);
  ranks.arrived(0, 1);
  EXPECT_EQ(ranks.latencies().size(), 0u);
  EXPECT_FALSE(ranks.next_fetch(1));
  EXPECT_GT(ranks.computes_until(1), fabric.events.now());
  const int before = woken;
  fabric.run_until(Time{} + microseconds(11));
  EXPECT_GT(woken, before);
  EXPECT_EQ(ranks.latencies().size(), 1u);
  const auto fetch = ranks.next_fetch(1);
  ASSERT_TRUE(fetch);
  EXPECT_EQ(fetch->bytes, 9'000u);
  EXPECT_FALSE(ranks.next_fetch(1));
  EXPECT_TRUE(fabric.violations.empty());
  ranks.finished(fetch->message);
  EXPECT_EQ(fabric.violations.size(), 1u);  // it was not there yet
  ranks.fetched(fetch->message);
  EXPECT_FALSE(ranks.over());
  ranks.finished(fetch->message);
  EXPECT_TRUE(ranks.over());
  EXPECT_EQ(fabric.violations.size(), 1u);
  ranks.fetched(fetch->message);
  ranks.finished(fetch->message);
  ranks.arrived(0, 1);
  EXPECT_EQ(fabric.violations.size(), 4u);
}

// Three messages, two of them large, to a rank whose receives are posted: one after the other.
TEST(WholeCore, ARankMatchesOneMessageAfterTheOther) {
  Fabric fabric({}, {}, 1);
  Workload workload;
  for (const std::uint64_t bytes : {100u, 9'000u, 9'000u}) {
    workload.messages.push_back({.source = 0,
                                 .target = 1,
                                 .bytes = bytes,
                                 .posted = true,
                                 .on_sent = {},
                                 .on_received = {}});
  }
  workload.steps = {{.node = 0, .receives = {}, .sends = {0, 1, 2}}};
  Ranks ranks(
      fabric, workload,
      {.ranks = 2, .eager_bytes = 4'096, .announcement_bytes = 64, .match = microseconds(3)});
  ranks.begin([](Node) {});
  for (int i = 0; i < 3; ++i) {
    ranks.sent(0);
    ranks.arrived(0, 1);
  }
  EXPECT_EQ(ranks.computes_until(1), Time{} + microseconds(9));
  EXPECT_EQ(ranks.computes_until(0), Time{});
  fabric.run_until(Time{} + microseconds(2));
  EXPECT_EQ(ranks.latencies().size(), 0u);
  fabric.run_until(Time{} + microseconds(3));
  ASSERT_EQ(ranks.latencies().size(), 1u);
  EXPECT_EQ(ranks.latencies()[0], microseconds(3));
  EXPECT_FALSE(ranks.next_fetch(1));
  fabric.run_until(Time{} + microseconds(6));
  EXPECT_TRUE(ranks.next_fetch(1));
  EXPECT_FALSE(ranks.next_fetch(1));
  fabric.run_until(Time{} + microseconds(9));
  EXPECT_TRUE(ranks.next_fetch(1));
  EXPECT_TRUE(fabric.violations.empty());
}

// Five messages one after the other, as in the wavefront above, and their matching.
TEST(WholeCore, MatchingTakesTime) {
  for (const std::uint64_t bytes : {4'000u, 40'000u}) {
    Scenario point = stepping(Pattern::wavefront, bytes);
    point.rounds = 1;
    const double at_once = played(point)["finished_us"];
    point.match_ns = 20'000;
    const Measured matching = played(point);
    EXPECT_GT(matching["finished_us"], at_once + 4 * 20);
    EXPECT_GT(matching["median_us"], 20);
    EXPECT_EQ(played(point).trace_hash, matching.trace_hash);
  }
  // A halo's rank has four a step.
  Scenario point = stepping(Pattern::halo_2d, 4'000, 3);
  const double at_once = played(point)["finished_us"];
  point.match_ns = 5'000;
  EXPECT_GT(played(point)["finished_us"], at_once + 6 * 2 * 5);
  point.work_cycles = 1'000;
  played(point);
}

TEST(WholeCore, AQueuePairHasNoMoreReadsUnderWayThanAgreed) {
  Scenario point = scenario(dragonfly, Pattern::pairs, 400'000);
  point.chunk_bytes = 4'096;
  point.reads = 64;
  point.fabric.switching.global_cycles = 500;  // so that what is under way is what counts
  point.max_rd_atomic = 16;
  const double sixteen = played(point)["finished_us"];
  point.max_rd_atomic = 1;
  EXPECT_GT(played(point)["finished_us"], 2 * sixteen);
}

TEST(WholeCore, LostPacketsAreSentAgain) {
  Scenario point = scenario(dragonfly, Pattern::halo_2d, 20'000);
  point.fabric.loss = 0.0005;
  point.timeout_cycles = 50'000;
  EXPECT_GT(played(point)["lost_packets"], 0u);
}

// Its connections wait for it, or, adaptively, go round.
TEST(WholeCore, ALinkThatComesBackIsWaitedFor) {
  Scenario point = scenario(dragonfly, Pattern::pairs, 100'000);
  point.fabric.switching.routing = Routing::minimal;
  point.timeout_cycles = 2'000;
  const double up = played(point)["finished_us"];
  point.fabric.outages = {{.links = 2, .from_cycles = 500, .to_cycles = 5'500}};
  const Measured waits = played(point);
  EXPECT_GT(waits["lost_packets"], 0u);
  EXPECT_GT(waits["finished_us"], up + 50);
  point.fabric.switching.routing = Routing::progressive;
  EXPECT_LT(played(point)["finished_us"], waits["finished_us"]);
}

}  // namespace
}  // namespace weir::sim::network
