// Whose chunk is next, and what comes back when.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "rendezvous/scheduler_with_peers.h"

namespace weir {
namespace {

constexpr std::uint32_t chunk_bytes = 1024;

Scheduler::Config small_world(std::uint32_t reads) {
  Scheduler::Config config;
  config.plan = {.chunk_bytes = chunk_bytes, .alignment_bytes = 64, .max_message_bytes = 1 << 20};
  config.reads = {.adaptive = false, .reads = reads};
  config.write_bytes = 4 * chunk_bytes;
  config.small_bytes = 2 * chunk_bytes;
  config.bypass_bytes = 4 * chunk_bytes;
  return config;
}

TransferRequest get(std::uint32_t peer, std::uint64_t chunks, std::uint64_t token = 0) {
  return {.peer = PeerId{peer},
          .remote_address = 0x10000,
          .local_address = 0x40000,
          .length_bytes = chunks * chunk_bytes,
          .lkey = 5,
          .rkey = 6,
          .token = token};
}

TransferRequest put(std::uint32_t peer, std::uint64_t chunks, std::uint64_t token = 0) {
  TransferRequest request = get(peer, chunks, token);
  request.kind = TransferKind::put;
  return request;
}

std::vector<Chunk> drain(SchedulerWithPeers& scheduler) {
  std::vector<Chunk> chunks;
  for (Chunk chunk; scheduler.next(chunk);) chunks.push_back(chunk);
  return chunks;
}

bool complete(SchedulerWithPeers& scheduler, const Chunk& chunk) {
  return scheduler.on_chunk_done({}, chunk.transfer, chunk.length_bytes, {});
}

void lose(SchedulerWithPeers& scheduler, const std::vector<Chunk>& chunks) {
  for (const Chunk& chunk : chunks) {
    scheduler.lose_chunk(chunk.transfer, chunk.offset, chunk.length_bytes, chunk.chained);
  }
}

TEST(Scheduler, GivesATransferInChunks) {
  SchedulerWithPeers scheduler(small_world(8));
  scheduler.open_peer(PeerId{3}, 16);
  const TransferId id = scheduler.submit(get(3, 3, 77));
  const std::vector<Chunk> chunks = drain(scheduler);
  ASSERT_EQ(chunks.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(chunks[i].transfer, id);
    EXPECT_EQ(chunks[i].peer, PeerId{3});
    EXPECT_EQ(chunks[i].offset, i * chunk_bytes);
    EXPECT_EQ(chunks[i].length_bytes, chunk_bytes);
    EXPECT_EQ(chunks[i].local_address, 0x40000 + i * chunk_bytes);
    EXPECT_EQ(chunks[i].remote_address, 0x10000 + i * chunk_bytes);
    EXPECT_EQ(chunks[i].lkey, 5u);
    EXPECT_EQ(chunks[i].rkey, 6u);
    EXPECT_EQ(chunks[i].last, i == 2);
  }
  FinishedTransfer finished;
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(scheduler.next_finished(finished));
    EXPECT_TRUE(complete(scheduler, chunks[2 - i]));  // in any order
  }
  ASSERT_TRUE(scheduler.next_finished(finished));
  EXPECT_EQ(finished.token, 77u);
  EXPECT_FALSE(finished.failed);
  EXPECT_TRUE(scheduler.idle());
  EXPECT_FALSE(complete(scheduler, chunks[0]));  // nobody knows it any more
  EXPECT_EQ(scheduler.counts().chunks_late, 1u);
  EXPECT_TRUE(scheduler.conserved());
}

// Around what 31 and 32 bits can hold, in chunks as large as adapters may take.
TEST(Scheduler, ATransferMayHaveAnyLength) {
  for (const std::uint32_t largest : {8u << 20u, 1u << 30u, 1u << 31u, UINT32_MAX}) {
    for (const std::uint64_t length :
         {(1ull << 31u) - 1, 1ull << 31u, (1ull << 31u) + 1, (1ull << 32u) - 1, 1ull << 32u,
          (1ull << 32u) + 1, (5ull << 30u) + 3}) {
      for (const TransferKind kind : {TransferKind::get, TransferKind::put}) {
        Scheduler::Config config = small_world(8);
        config.plan = {
            .chunk_bytes = largest, .alignment_bytes = 4096, .max_message_bytes = largest};
        config.chain_bytes = 1 << 20;
        SchedulerWithPeers scheduler(config);
        scheduler.open_peer(PeerId{3}, 16);
        TransferRequest request = get(3, 0, 77);
        request.kind = kind;
        request.length_bytes = length;
        request.remote_address = 0x7f0000000123;
        request.local_address = 0x7e0000000fff;
        scheduler.submit(request);
        std::uint64_t offset = 0;
        std::deque<Chunk> out;
        for (;;) {
          for (Chunk chunk; scheduler.next(chunk);) {
            ASSERT_EQ(chunk.offset, offset) << length << " in " << largest;
            ASSERT_EQ(chunk.local_address, request.local_address + offset);
            ASSERT_EQ(chunk.remote_address, request.remote_address + offset);
            ASSERT_GT(chunk.length_bytes, 0u);
            ASSERT_LE(chunk.length_bytes, largest);
            offset += chunk.length_bytes;
            ASSERT_EQ(chunk.last, offset == length);
            out.push_back(chunk);
          }
          if (out.empty()) break;
          ASSERT_TRUE(complete(scheduler, out.front()));
          out.pop_front();
        }
        EXPECT_EQ(offset, length) << "in " << largest;
        FinishedTransfer finished;
        ASSERT_TRUE(scheduler.next_finished(finished));
        EXPECT_EQ(finished.length_bytes, length);
        EXPECT_FALSE(finished.failed);
        EXPECT_TRUE(scheduler.idle());
        EXPECT_TRUE(scheduler.conserved());
      }
    }
  }
}

TEST(Scheduler, ASmallOneGoesAtOnceWhenNothingWaits) {
  SchedulerWithPeers scheduler(small_world(2));
  Chunk chunk;
  EXPECT_FALSE(scheduler.submit_and_issue(put(0, 1), chunk)) << "its peer is not open";
  scheduler.open_peer(PeerId{0}, 1);
  EXPECT_FALSE(scheduler.submit_and_issue(put(0, 0), chunk)) << "nothing to issue";
  EXPECT_FALSE(scheduler.submit_and_issue(put(0, 2), chunk)) << "more than a chunk";
  ASSERT_TRUE(scheduler.submit_and_issue(get(0, 1, 9), chunk));
  EXPECT_EQ(chunk.peer, PeerId{0});
  EXPECT_EQ(chunk.remote_address, 0x10000u);
  EXPECT_EQ(chunk.local_address, 0x40000u);
  EXPECT_EQ(chunk.length_bytes, chunk_bytes);
  EXPECT_TRUE(chunk.last);
  EXPECT_TRUE(scheduler.conserved());
  Chunk other;
  EXPECT_FALSE(scheduler.submit_and_issue(get(0, 1), other)) << "its peer has all the reads it may";
  scheduler.submit(get(0, 1));
  scheduler.open_peer(PeerId{1}, 1);
  EXPECT_FALSE(scheduler.submit_and_issue(put(1, 1), other)) << "a get waits";
  scheduler.submit(put(1, 1));
  EXPECT_TRUE(scheduler.next(other)) << "a get that cannot go holds up no put";
  EXPECT_TRUE(complete(scheduler, chunk));
  FinishedTransfer finished;
  ASSERT_TRUE(scheduler.next_finished(finished));
  EXPECT_EQ(finished.token, 9u);
  EXPECT_TRUE(scheduler.conserved());
}

TEST(Scheduler, NothingIsDoneAtOnce) {
  SchedulerWithPeers scheduler(small_world(8));
  scheduler.submit(get(0, 0, 1));
  Chunk chunk;
  EXPECT_FALSE(scheduler.next(chunk));
  FinishedTransfer finished;
  ASSERT_TRUE(scheduler.next_finished(finished));
  EXPECT_EQ(finished.token, 1u);
  EXPECT_FALSE(finished.failed);
}

TEST(Scheduler, WaitsForThePeer) {
  SchedulerWithPeers scheduler(small_world(8));
  scheduler.submit(get(0, 2));
  EXPECT_TRUE(drain(scheduler).empty());
  scheduler.open_peer(PeerId{0}, 1);
  EXPECT_EQ(drain(scheduler).size(), 1u);  // max_rd_atomic
  scheduler.hold_peer(PeerId{0});
  scheduler.open_peer(PeerId{0}, 2);
  EXPECT_EQ(drain(scheduler).size(), 1u);
  EXPECT_TRUE(scheduler.conserved());
}

// c as in the paper: the (c + i)th get goes when the ith is back.
TEST(Scheduler, FixedCIsThePapers) {
  for (std::uint32_t c : {1u, 2u, 7u, 30u}) {
    SchedulerWithPeers scheduler(small_world(c));
    scheduler.open_peer(PeerId{0}, 100);
    scheduler.submit(get(0, 100));
    std::vector<Chunk> chunks = drain(scheduler);
    EXPECT_EQ(chunks.size(), c);
    for (std::size_t i = 0; chunks.size() < 100; ++i) {
      complete(scheduler, chunks[i]);
      for (const Chunk& chunk : drain(scheduler)) chunks.push_back(chunk);
      EXPECT_EQ(chunks.size(), c + i + 1);
    }
    EXPECT_EQ(scheduler.reads().peak_chunks(), c);
  }
}

TEST(Scheduler, TheBudgetIsThatOfTheWholePort) {
  SchedulerWithPeers scheduler(small_world(6));
  for (std::uint32_t peer = 0; peer < 4; ++peer) {
    scheduler.open_peer(PeerId{peer}, 16);
    for (int i = 0; i < 3; ++i) scheduler.submit(get(peer, 50));
  }
  EXPECT_EQ(drain(scheduler).size(), 6u);
}

TEST(Scheduler, PutsHaveTheirOwnBudget) {
  SchedulerWithPeers scheduler(small_world(2));
  scheduler.open_peer(PeerId{0}, 1);
  scheduler.submit(get(0, 10));
  scheduler.submit(put(0, 10));
  std::map<TransferKind, int> count;
  for (const Chunk& chunk : drain(scheduler)) ++count[chunk.kind];
  EXPECT_EQ(count[TransferKind::get], 1);  // max_rd_atomic
  EXPECT_EQ(count[TransferKind::put], 4);  // write_bytes
}

TEST(Scheduler, GetsAndPutsTakeTurns) {
  SchedulerWithPeers scheduler(small_world(4));
  scheduler.open_peer(PeerId{0}, 16);
  scheduler.submit(get(0, 10));
  scheduler.submit(put(0, 10));
  const std::vector<Chunk> chunks = drain(scheduler);
  ASSERT_EQ(chunks.size(), 8u);
  for (std::size_t i = 1; i < 8; ++i) EXPECT_NE(chunks[i].kind, chunks[i - 1].kind);
}

TEST(Scheduler, ASmallTransferIsNotStuckBehindAHugeOne) {
  SchedulerWithPeers scheduler(small_world(1));
  scheduler.open_peer(PeerId{0}, 16);
  scheduler.submit(get(0, 1000, 1));
  Chunk chunk;
  ASSERT_TRUE(scheduler.next(chunk));
  const TransferId small = scheduler.submit(get(0, 2, 2));
  for (int i = 0; i < 2; ++i) {
    complete(scheduler, chunk);
    ASSERT_TRUE(scheduler.next(chunk));
    EXPECT_EQ(chunk.transfer, small);
  }
}

TEST(Scheduler, SmallOnesDoNotStarveALargeOne) {
  SchedulerWithPeers scheduler(small_world(1));
  scheduler.open_peer(PeerId{0}, 16);
  const TransferId large = scheduler.submit(get(0, 1000));
  std::uint64_t passed = 0;
  int served = 0;
  for (int i = 0; i < 500; ++i) {
    scheduler.submit(get(0, 1));
    Chunk chunk;
    ASSERT_TRUE(scheduler.next(chunk));
    complete(scheduler, chunk);
    if (chunk.transfer == large) {
      ++served;
      passed = 0;
    } else {
      passed += chunk.length_bytes;
    }
    EXPECT_LE(passed, 4 * chunk_bytes);
  }
  EXPECT_EQ(served, 100);  // one of five
}

TEST(Scheduler, PeersTakeTurnsByBytes) {
  SchedulerWithPeers scheduler(small_world(1));
  const std::uint64_t quantum = scheduler.plan().largest_bytes();
  for (std::uint32_t peer = 0; peer < 5; ++peer) {
    scheduler.open_peer(PeerId{peer}, 16);
    // Many little ones, or a few huge ones: no matter.
    for (int i = 0; i < 4000; ++i) {
      TransferRequest request = get(peer, peer == 0 ? 1000 : 0);
      if (peer > 0) request.length_bytes = 100 * peer;
      scheduler.submit(request);
    }
  }
  std::vector<std::uint64_t> bytes(5);
  for (int i = 0; i < 4000; ++i) {
    Chunk chunk;
    ASSERT_TRUE(scheduler.next(chunk));
    bytes[index(chunk.peer)] += chunk.length_bytes;
    complete(scheduler, chunk);
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    ASSERT_LE(*most - *least, 2 * quantum) << "chunk " << i;
  }
}

// Not of puts, of chains, or of those whose end nobody saw in time.
TEST(Scheduler, TheTimesOfReadsAreCounted) {
  SchedulerWithPeers scheduler(small_world(8));
  scheduler.open_peer(PeerId{0}, 8);
  scheduler.submit(get(0, 3));
  scheduler.submit(put(0, 1));
  const std::vector<Chunk> chunks = drain(scheduler);
  ASSERT_EQ(chunks.size(), 4u);
  bool is_first = true;
  for (const Chunk& chunk : chunks) {
    const bool is_get = scheduler.request(chunk.transfer).kind == TransferKind::get;
    const Duration time = is_get && is_first ? Duration{} : microseconds(30);
    is_first = is_first && !is_get;
    scheduler.on_chunk_done({}, chunk.transfer, chunk.length_bytes, time);
  }
  EXPECT_EQ(scheduler.read_times().sum_ns, 60'000u);
  EXPECT_EQ(scheduler.read_times().counts[3], 2u);  // 16 to 33 us
}

TEST(Scheduler, ACancelledPeerGivesItsChunksBackAsTheyComeHome) {
  SchedulerWithPeers scheduler(small_world(8));
  scheduler.open_peer(PeerId{0}, 2);
  scheduler.open_peer(PeerId{1}, 16);
  scheduler.submit(get(0, 5, 10));
  scheduler.submit(get(0, 5, 11));
  scheduler.submit(get(1, 1, 12));
  const std::vector<Chunk> chunks = drain(scheduler);
  ASSERT_EQ(chunks.size(), 3u);
  scheduler.cancel_peer(PeerId{0});
  EXPECT_EQ(scheduler.outstanding(PeerId{0}, TransferKind::get), 2u);
  FinishedTransfer finished;
  ASSERT_TRUE(scheduler.next_finished(finished));  // nothing of it was under way
  EXPECT_EQ(finished.token, 11u);
  EXPECT_TRUE(finished.failed);
  EXPECT_FALSE(scheduler.next_finished(finished));
  EXPECT_TRUE(drain(scheduler).empty());
  for (const Chunk& chunk : chunks) {
    if (chunk.peer == PeerId{0}) {
      EXPECT_TRUE(scheduler.on_chunk_failed(chunk.transfer, chunk.length_bytes));
    }
    EXPECT_TRUE(scheduler.conserved());
  }
  ASSERT_TRUE(scheduler.next_finished(finished));
  EXPECT_EQ(finished.token, 10u);
  EXPECT_TRUE(finished.failed);
  EXPECT_EQ(scheduler.reads().chunks(), 1u);
}

TEST(Scheduler, ADroppedPeerGivesEverythingBackAtOnce) {
  SchedulerWithPeers scheduler(small_world(8));
  scheduler.open_peer(PeerId{0}, 16);
  scheduler.submit(get(0, 4, 1));
  scheduler.submit(put(0, 4, 2));
  const std::vector<Chunk> chunks = drain(scheduler);
  EXPECT_EQ(chunks.size(), 8u);
  scheduler.drop_peer(PeerId{0});
  EXPECT_EQ(scheduler.reads().chunks(), 0u);
  EXPECT_EQ(scheduler.writes().bytes(), 0u);
  for (const Chunk& chunk : chunks) EXPECT_FALSE(complete(scheduler, chunk));
  FinishedTransfer finished;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(scheduler.next_finished(finished));
    EXPECT_TRUE(finished.failed);
  }
  // The slots are in use again; the late ones still mean nobody.
  scheduler.open_peer(PeerId{0}, 16);
  scheduler.submit(get(0, 4));
  drain(scheduler);
  for (const Chunk& chunk : chunks) EXPECT_FALSE(complete(scheduler, chunk));
  EXPECT_EQ(scheduler.reads().chunks(), 4u);
  EXPECT_TRUE(scheduler.conserved());
}

TEST(Scheduler, AFailedChunkFailsItsTransferOnly) {
  SchedulerWithPeers scheduler(small_world(2));
  scheduler.open_peer(PeerId{0}, 16);
  scheduler.submit(get(0, 10, 1));
  scheduler.submit(get(0, 10, 2));
  const std::vector<Chunk> chunks = drain(scheduler);
  ASSERT_EQ(chunks.size(), 2u);
  scheduler.on_chunk_failed(chunks[0].transfer, chunk_bytes);
  FinishedTransfer finished;
  EXPECT_FALSE(scheduler.next_finished(finished));  // its other chunk is still under way
  Chunk chunk;
  ASSERT_TRUE(scheduler.next(chunk));
  EXPECT_NE(chunk.transfer, chunks[0].transfer);
  complete(scheduler, chunks[1]);
  ASSERT_TRUE(scheduler.next_finished(finished));
  EXPECT_EQ(finished.token, 1u);
  EXPECT_TRUE(finished.failed);
  EXPECT_TRUE(scheduler.conserved());
}

// ---- lanes that break ----

TEST(Scheduler, WhatALostLaneHadUnderWayGoesAgainAndNothingElse) {
  SchedulerWithPeers scheduler(small_world(3));
  scheduler.open_peer(PeerId{0}, 16);
  scheduler.submit(get(0, 5, 1));
  std::vector<Chunk> chunks = drain(scheduler);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_TRUE(complete(scheduler, chunks[1]));
  lose(scheduler, {chunks[0], chunks[2]});
  EXPECT_TRUE(scheduler.lose_lanes(PeerId{0}));
  EXPECT_EQ(scheduler.reads().chunks(), 0u);
  EXPECT_TRUE(scheduler.conserved());
  EXPECT_TRUE(drain(scheduler).empty()) << "there is no lane";
  scheduler.open_peer(PeerId{0}, 16);
  std::vector<std::uint64_t> again;
  for (std::vector<Chunk> next; !(next = drain(scheduler)).empty();) {
    for (const Chunk& chunk : next) {
      again.push_back(chunk.offset / chunk_bytes);
      EXPECT_TRUE(complete(scheduler, chunk));
    }
  }
  EXPECT_EQ(again, (std::vector<std::uint64_t>{0, 2, 3, 4}));
  FinishedTransfer finished;
  ASSERT_TRUE(scheduler.next_finished(finished));
  EXPECT_FALSE(finished.failed);
  EXPECT_TRUE(scheduler.idle());
  EXPECT_TRUE(scheduler.conserved());
}

// All lanes break, or one after the other while the rest go on.
TEST(Scheduler, WhatGoesAgainKeepsItsOrder) {
  for (const bool at_once : {true, false}) {
    SchedulerWithPeers scheduler(small_world(16));
    scheduler.open_peer(PeerId{0}, 16);
    for (std::uint64_t token = 1; token <= 3; ++token) scheduler.submit(get(0, 4, token));
    std::vector<Chunk> before = drain(scheduler);
    ASSERT_EQ(before.size(), 12u);
    scheduler.submit(get(0, 4, 4));
    for (int times = 0; times < 2; ++times) {
      scheduler.hold_peer(PeerId{0});
      std::vector<Chunk> odd;
      std::vector<Chunk> even;
      for (const Chunk& chunk : before) {
        (scheduler.request(chunk.transfer).token % 2 == 0 ? even : odd).push_back(chunk);
      }
      lose(scheduler, odd);
      if (!at_once) scheduler.go_again(PeerId{0});
      lose(scheduler, even);
      if (at_once) {
        EXPECT_TRUE(scheduler.lose_lanes(PeerId{0}));
      } else {
        scheduler.go_again(PeerId{0});
      }
      EXPECT_TRUE(scheduler.conserved());
      scheduler.open_peer(PeerId{0}, 12);
      const std::vector<Chunk> after = drain(scheduler);
      ASSERT_EQ(after.size(), before.size());
      for (std::size_t i = 0; i < after.size(); ++i) {
        EXPECT_EQ(after[i].transfer, before[i].transfer) << i;
      }
      before = after;
    }
  }
}

// It is over when its lane is: nothing of it is left that could tell of its end.
TEST(Scheduler, AFailedGetWhoseLaneBreaksIsOver) {
  SchedulerWithPeers scheduler(small_world(4));
  scheduler.open_peer(PeerId{0}, 16);
  for (const std::uint64_t length : {2, 8}) {  // all of it under way; a part of it
    scheduler.submit(get(0, length, length));
    const std::vector<Chunk> chunks = drain(scheduler);
    scheduler.cancel_peer(PeerId{0});
    FinishedTransfer finished;
    EXPECT_FALSE(scheduler.next_finished(finished)) << "its chunks are under way";
    lose(scheduler, chunks);
    EXPECT_TRUE(scheduler.lose_lanes(PeerId{0}));
    EXPECT_TRUE(scheduler.conserved());
    ASSERT_TRUE(scheduler.next_finished(finished));
    EXPECT_EQ(finished.token, length);
    EXPECT_TRUE(finished.failed);
    EXPECT_TRUE(scheduler.idle());
    scheduler.open_peer(PeerId{0}, 16);
    EXPECT_TRUE(drain(scheduler).empty()) << "nothing of it goes again";
  }
}

TEST(Scheduler, OnlyMovableTransfersAreWithdrawn) {
  SchedulerWithPeers scheduler(small_world(8));
  TransferRequest movable = get(0, 1, 1);
  movable.movable = true;
  scheduler.submit(movable);
  scheduler.submit(get(0, 1, 2));
  scheduler.withdraw(PeerId{0});
  TransferRequest withdrawn;
  ASSERT_TRUE(scheduler.next_withdrawn(withdrawn));
  EXPECT_EQ(withdrawn.token, 1u);
  EXPECT_FALSE(scheduler.next_withdrawn(withdrawn));
  scheduler.open_peer(PeerId{0}, 16);
  EXPECT_EQ(drain(scheduler).size(), 1u);
}

// One that was executed must not be executed again; one that was never posted may be.
TEST(Scheduler, AnAtomicUnderWayGoesNotAgain) {
  for (const bool posted : {false, true}) {
    SchedulerWithPeers scheduler(small_world(8));
    scheduler.open_peer(PeerId{0}, 16);
    TransferRequest atomic = get(0, 0, 1);
    atomic.length_bytes = 8;
    atomic.opcode = Opcode::fetch_add;
    scheduler.submit(atomic);
    if (posted) lose(scheduler, drain(scheduler));
    EXPECT_EQ(scheduler.lose_lanes(PeerId{0}), !posted);
    EXPECT_TRUE(scheduler.conserved());
  }
}

TEST(Scheduler, AChunkLargerThanTheBudgetStillGoes) {
  Scheduler::Config config = small_world(8);
  config.reads.adaptive = true;
  config.reads.initial_bytes = config.reads.least_bytes = config.reads.most_bytes = 1;
  config.write_bytes = 0;
  SchedulerWithPeers scheduler(config);
  scheduler.open_peer(PeerId{0}, 16);
  for (const TransferRequest& request : {get(0, 10), put(0, 10)}) {
    scheduler.submit(request);
    for (int i = 0; i < 10; ++i) {
      Chunk chunk;
      ASSERT_TRUE(scheduler.next(chunk));
      Chunk more;
      EXPECT_FALSE(scheduler.next(more));
      complete(scheduler, chunk);
    }
  }
}

// A sink that takes so many bytes a microsecond, so far away.
struct Sink {
  double bytes_per_us, one_way_us;
};

// Plays a get of a gigabyte into it until `chunks` are done, and calls settled(chunk) for those
// after the first 1000. The most that was then under way.
template <typename Posted, typename Settled>
std::uint64_t play(const Sink& sink, int chunks, Posted&& posted, Settled&& settled) {
  SchedulerWithPeers scheduler(Scheduler::Config{});
  scheduler.open_peer(PeerId{0}, 1000);
  scheduler.submit({.peer = PeerId{0}, .length_bytes = std::uint64_t{1} << 30});
  struct Read {
    Chunk chunk;
    double posted_us, done_us;
  };
  std::deque<Read> under_way;
  double now = 1000;
  double free = 0;
  std::uint64_t most = 0;
  for (int i = 0; i < chunks; ++i) {
    for (Chunk chunk; scheduler.next(chunk);) {
      posted(chunk);
      free = std::max(free, now + sink.one_way_us) + chunk.length_bytes / sink.bytes_per_us;
      under_way.push_back({chunk, now, free + sink.one_way_us});
    }
    if (under_way.empty()) {
      ADD_FAILURE() << "nothing is under way";
      return most;
    }
    const Read read = under_way.front();
    under_way.pop_front();
    if (i > 1000) {
      most = std::max(most, scheduler.reads().bytes());
      settled(read.chunk);
    }
    const Duration took{static_cast<std::int64_t>((read.done_us - read.posted_us) * 1000)};
    now = read.done_us;
    scheduler.on_chunk_done({static_cast<std::int64_t>(now * 1000)}, read.chunk.transfer,
                            read.chunk.length_bytes, took);
  }
  return most;
}

// The times reach the controller and its window the budget: a sink of 12.5 GB/s, 100 us away.
TEST(Scheduler, FollowsTheController) {
  const auto any = [](const Chunk&) {};
  const std::uint64_t most = play({12'500, 50}, 4000, any, any);
  EXPECT_GE(most, 1'250'000u);  // the delay's worth
  EXPECT_LE(most, 1'250'000u + 4 * (128u << 10));
}

// A receiver that takes an eighth of 100 Gbit/s, 2 us away: after the sounding its chunks become as
// small as they may be, and few are under way.
TEST(Scheduler, ASlowReceiverReadsLittleAtATime) {
  const auto sounds_first = [](const Chunk& chunk) {
    EXPECT_TRUE(chunk.offset > 0 || chunk.length_bytes == 4096);
  };
  const auto is_small = [](const Chunk& chunk) { EXPECT_EQ(chunk.length_bytes, 16u << 10); };
  const std::uint64_t most = play({1'562, 1}, 2000, sounds_first, is_small);
  EXPECT_GE(most, 32u << 10);  // the sink never waits
  EXPECT_LE(most, 64u << 10);
}

}  // namespace
}  // namespace weir
