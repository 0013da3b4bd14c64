// Which gets go as a chain, and what that means for the others.
#include <gtest/gtest.h>

#include <vector>

#include "rendezvous/scheduler_with_peers.h"

namespace weir {
namespace {

constexpr std::uint32_t chunk_bytes = 1024;
constexpr PeerId near{1};
constexpr PeerId far{2};

Scheduler::Config chains(std::uint32_t reads) {
  Scheduler::Config config;
  config.plan = {.chunk_bytes = chunk_bytes, .alignment_bytes = 64, .max_message_bytes = 1 << 20};
  config.reads = {.adaptive = false, .reads = reads};
  config.small_bytes = 2 * chunk_bytes;
  config.chain_bytes = 8 * chunk_bytes;
  return config;
}

TransferRequest get(PeerId peer, std::uint64_t chunks) {
  return {.peer = peer, .length_bytes = chunks * chunk_bytes};
}

struct Chains : testing::Test {
  explicit Chains(const Scheduler::Config& config = chains(4)) : scheduler(config) {
    scheduler.open_peer(near, 16);
    scheduler.open_peer(far, 16);
    scheduler.open_chain(near, 4);
  }

  std::vector<Chunk> drain() {
    std::vector<Chunk> chunks;
    for (Chunk chunk; scheduler.next(chunk);) chunks.push_back(chunk);
    EXPECT_TRUE(scheduler.conserved());
    return chunks;
  }
  void complete(const std::vector<Chunk>& chunks) {
    for (const Chunk& chunk : chunks) {
      EXPECT_TRUE(
          scheduler.on_chunk_done({}, chunk.transfer, chunk.length_bytes, {}, chunk.chained));
    }
    EXPECT_TRUE(scheduler.conserved());
  }
  static std::size_t chained(const std::vector<Chunk>& chunks) {
    std::size_t count = 0;
    for (const Chunk& chunk : chunks) count += chunk.chained ? 1 : 0;
    return count;
  }

  SchedulerWithPeers scheduler;
};

// `weir set`: what is handed out goes on; of the rest one chunk at a time, as beside any chain.
TEST_F(Chains, TheRestOfOneThatExceedsALowerCGoesByChunks) {
  scheduler.submit(get(near, 10));
  std::vector<Chunk> handed_out(3);
  for (Chunk& chunk : handed_out) ASSERT_TRUE(scheduler.next(chunk));
  ASSERT_EQ(chained(handed_out), 3u);
  scheduler.limit({.adaptive = false, .reads = 1});
  std::vector<Chunk> chunks = drain();
  complete(handed_out);
  for (int i = 0; i < 7; ++i) {
    ASSERT_EQ(chunks.size(), 1u);
    EXPECT_EQ(chained(chunks), 0u);
    complete(chunks);
    chunks = drain();
  }
  EXPECT_TRUE(chunks.empty());
  scheduler.limit({.adaptive = false, .reads = 4});
  scheduler.submit(get(near, 10));
  EXPECT_EQ(chained(drain()), 10u);
}

TEST_F(Chains, AllChunksAreHandedOutAtOnceAndChargedAsC) {
  scheduler.submit(get(near, 10));
  const auto chunks = drain();
  ASSERT_EQ(chunks.size(), 10u);
  EXPECT_EQ(chained(chunks), 10u);
  EXPECT_TRUE(chunks.back().last);
  EXPECT_EQ(scheduler.reads().chunks(), 4u);
  complete(chunks);
  EXPECT_EQ(scheduler.reads().chunks(), 0u);
  FinishedTransfer finished;
  ASSERT_TRUE(scheduler.next_finished(finished));
  EXPECT_FALSE(finished.failed);
  EXPECT_TRUE(scheduler.idle());
}

TEST_F(Chains, NotForFewerBytes) {
  scheduler.submit(get(near, 7));
  EXPECT_EQ(chained(drain()), 0u);
}

TEST_F(Chains, NotWithoutALane) {
  scheduler.submit(get(far, 10));
  EXPECT_EQ(chained(drain()), 0u);
}

TEST_F(Chains, NotForPutsAndAtomics) {
  TransferRequest put = get(near, 10);
  put.kind = TransferKind::put;
  put.opcode = Opcode::write;
  scheduler.submit(put);
  scheduler.submit({.peer = near, .length_bytes = 8, .opcode = Opcode::fetch_add});
  EXPECT_EQ(chained(drain()), 0u);
}

TEST_F(Chains, NotWhileSomebodyElseReads) {
  scheduler.submit(get(far, 2));
  const auto first = drain();
  scheduler.submit(get(near, 10));
  EXPECT_EQ(chained(drain()), 0u);
  complete(first);
}

TEST_F(Chains, AnotherOneBehindTheFirstCostsNoMore) {
  scheduler.submit(get(near, 10));
  scheduler.submit(get(near, 10));
  const auto chunks = drain();
  EXPECT_EQ(chained(chunks), 20u);
  EXPECT_EQ(scheduler.reads().chunks(), 4u);
  complete(chunks);
  EXPECT_EQ(scheduler.reads().chunks(), 0u);
}

TEST_F(Chains, WhoComesLaterGoesBesideItAndEndsIt) {
  scheduler.submit(get(near, 10));
  std::vector<Chunk> chunks;
  for (Chunk chunk; chunks.size() < 6 && scheduler.next(chunk);) chunks.push_back(chunk);
  EXPECT_EQ(chained(chunks), 6u);
  scheduler.hold_chain(near);
  scheduler.submit(get(far, 3));
  auto others = drain();
  ASSERT_EQ(others.size(), 1u);  // c is all reserved; one may always go
  EXPECT_EQ(others[0].peer, far);
  scheduler.open_chain(near, 4);
  EXPECT_TRUE(drain().empty());
  EXPECT_EQ(scheduler.counts().chains_left, 1u);
  complete(chunks);  // the reservation ends with the last one handed out
  EXPECT_EQ(scheduler.reads().chunks(), 1u);
  while (scheduler.reads().chunks() > 0) {
    complete(others);
    others = drain();
    EXPECT_EQ(chained(others), 0u);
  }
  EXPECT_EQ(scheduler.counts().chunks_done, 13u);
}

TEST_F(Chains, WhatIsLeftOfOneGoesBeforeWhatCameLater) {
  const TransferId first = scheduler.submit(get(near, 10));
  std::vector<Chunk> chunks;
  for (Chunk chunk; chunks.size() < 6 && scheduler.next(chunk);) chunks.push_back(chunk);
  scheduler.hold_chain(near);
  const TransferId second = scheduler.submit(get(near, 10));
  EXPECT_TRUE(drain().empty());  // it does not pass the first one
  scheduler.submit(get(far, 1));
  auto others = drain();
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].peer, far);
  scheduler.submit(get(far, 1));
  scheduler.open_chain(near, 4);
  drain();
  EXPECT_EQ(scheduler.counts().chains_left, 1u);
  complete(chunks);
  std::vector<TransferId> order;
  for (complete(others); order.size() < 10; complete(others)) {
    others = drain();
    ASSERT_FALSE(others.empty());
    for (const Chunk& chunk : others) {
      if (chunk.peer == near) order.push_back(chunk.transfer);
    }
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(order[i], first);
  EXPECT_EQ(order[4], second);
}

TEST_F(Chains, AClosedLaneTakesNoMore) {
  scheduler.close_chain(near);
  scheduler.submit(get(near, 10));
  const auto chunks = drain();
  EXPECT_EQ(chained(chunks), 0u);
  EXPECT_EQ(chunks.size(), 4u);
}

TEST_F(Chains, FailWithTheirPeerAndGiveTheBudgetBack) {
  scheduler.submit(get(near, 10));
  EXPECT_EQ(drain().size(), 10u);
  scheduler.drop_peer(near);
  EXPECT_EQ(scheduler.reads().chunks(), 0u);
  FinishedTransfer finished;
  ASSERT_TRUE(scheduler.next_finished(finished));
  EXPECT_TRUE(finished.failed);
  EXPECT_TRUE(scheduler.conserved());
}

Scheduler::Config adaptive_chains() {
  Scheduler::Config config = chains(4);
  config.reads = {.adaptive = true,
                  .initial_bytes = 4 * chunk_bytes,
                  .least_bytes = 4 * chunk_bytes,
                  .queue_bytes = chunk_bytes,
                  .chunk_bytes = chunk_bytes};
  config.measure_every = 5;
  return config;
}

// Two peers' chains: the first in the round waits for the budget that the other one has, whose lane
// was full and has room again. (SchedulerRandom found this: it never ended.)
TEST_F(Chains, OneThatHasItsPartOfTheBudgetPassesOneThatWaitsForIt) {
  scheduler.open_chain(far, 4);
  scheduler.hold_chain(near);
  scheduler.submit(get(near, 10));
  EXPECT_TRUE(drain().empty());
  scheduler.submit(get(far, 10));
  Chunk chunk;
  ASSERT_TRUE(scheduler.next(chunk));
  EXPECT_TRUE(chunk.chained);
  scheduler.hold_chain(far);
  complete({chunk});
  scheduler.open_chain(near, 4);
  scheduler.open_chain(far, 4);
  const auto rest = drain();
  ASSERT_EQ(rest.size(), 9u);
  EXPECT_EQ(rest.front().peer, far);
  complete(rest);
  const auto other = drain();
  ASSERT_EQ(other.size(), 10u);
  complete(other);
  FinishedTransfer finished;
  while (scheduler.next_finished(finished)) EXPECT_FALSE(finished.failed);
  EXPECT_TRUE(scheduler.idle());
}

struct AdaptiveChains : Chains {
  AdaptiveChains() : Chains(adaptive_chains()) {}
};

TEST_F(AdaptiveChains, OneOfSeveralGoesChunkByChunkSoThatCStaysKnown) {
  int as_chain = 0;
  for (int i = 0; i < 20; ++i) {
    scheduler.submit(get(near, 10));
    for (auto chunks = drain(); !chunks.empty(); chunks = drain()) {
      as_chain += chunks[0].chained && chunks[0].offset == 0 ? 1 : 0;
      complete(chunks);
    }
  }
  EXPECT_EQ(as_chain, 16);
}

TEST_F(AdaptiveChains, TheOneThatMeasuresIsNotBehindAChain) {
  for (int i = 0; i < 6; ++i) scheduler.submit(get(near, 10));
  const auto chains = drain();
  EXPECT_EQ(chained(chains), 40u);
  EXPECT_EQ(chains.size(), 40u);  // the fifth waits
  complete(chains);
  auto chunks = drain();
  EXPECT_EQ(chunks.size(), 4u);
  EXPECT_EQ(chained(chunks), 0u);
  while (!chunks.empty() && !chunks[0].chained) {
    complete(chunks);
    chunks = drain();
  }
  EXPECT_EQ(chained(chunks), 10u);  // and the sixth is a chain again
}

TEST_F(AdaptiveChains, NotOnALaneThatIsTooShallowOrTooDeepForTheWindow) {
  scheduler.open_chain(near, 2);
  scheduler.submit(get(near, 10));
  EXPECT_EQ(chained(drain()), 0u);
  scheduler.drop_peer(near);
  scheduler.open_peer(near, 16);
  scheduler.open_chain(near, 6);
  scheduler.submit(get(near, 10));
  EXPECT_EQ(chained(drain()), 0u);
}

// A lane's depth stays, so its reads are as small as others: a window of 128 KiB is 4 of 32 KiB.
TEST(AdaptiveChain, HasNoMoreUnderWayThanTheWindow) {
  Scheduler::Config config;
  config.chain_bytes = 1 << 20;
  SchedulerWithPeers scheduler(config);
  ASSERT_EQ(scheduler.controller().window_bytes(), 128u << 10);
  EXPECT_EQ(scheduler.chain_reads(), 4u);
  scheduler.open_peer(near, 16);
  scheduler.open_chain(near, 4);
  scheduler.submit({.peer = near, .length_bytes = 2 << 20});
  int chunks = 0;
  for (Chunk chunk; scheduler.next(chunk); ++chunks) {
    EXPECT_TRUE(chunk.chained);
    EXPECT_EQ(chunk.length_bytes, 32u << 10);
  }
  EXPECT_EQ(chunks, 64);
  EXPECT_EQ(scheduler.reads().bytes(), 128u << 10);
  EXPECT_TRUE(scheduler.conserved());
}

}  // namespace
}  // namespace weir
