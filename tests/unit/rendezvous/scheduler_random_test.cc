// Random worlds: every byte exactly once, the budgets kept, nothing lost, nobody starved.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "rendezvous/scheduler_with_peers.h"
#include "tools/sim/random.h"

namespace weir {
namespace {

struct Expected {
  std::uint64_t length;
  std::map<std::uint64_t, std::uint32_t> issued;  // offset: bytes
  std::uint64_t completed = 0;
  bool cancelled = false;
  bool movable = false;
};

class RandomWorld {
 public:
  explicit RandomWorld(std::uint64_t seed) : random_(seed), scheduler_(config()) {
    peers_ = random_.between(1, 6);
    max_reads_.resize(peers_);
    chain_reads_.resize(peers_);
    for (std::uint32_t i = 0; i < peers_; ++i) open(PeerId{i});
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const std::uint64_t dice = random_.below(100);
      if (dice < 15) {
        submit();
      } else if (dice < 55) {
        issue();
      } else if (dice < 90) {
        complete();
      } else if (dice < 93) {
        scheduler_.hold_peer(any_peer());
      } else if (dice < 96) {
        open(any_peer());
      } else if (dice < 97) {
        open_chain(any_peer());
      } else if (dice < 98) {
        scheduler_.hold_chain(any_peer());
      } else if (dice < 99) {
        breaks_ ? lose_lanes() : cancel(false);
      } else {
        cancel(true);
      }
      check();
      if (::testing::Test::HasFatalFailure()) return;
    }
    // Everything that was taken comes to an end.
    for (std::uint32_t i = 0; i < peers_; ++i) {
      open(PeerId{i});
      open_chain(PeerId{i});
    }
    for (int rounds = 0; !expected_.empty(); ++rounds) {
      ASSERT_LT(rounds, 1'000'000) << "it never ends";
      while (issue()) {
      }
      complete();
      check();
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_TRUE(scheduler_.idle());
    EXPECT_EQ(scheduler_.reads().chunks(), 0u);
    EXPECT_EQ(scheduler_.writes().chunks(), 0u);
    const Scheduler::Counts& counts = scheduler_.counts();
    EXPECT_EQ(counts.submitted, counts.done + counts.failed);
  }

  bool seen_chained = false;
  bool seen_at_once = false;
  bool seen_again = false;      // chunks that went again
  bool seen_withdrawn = false;  // transfers that go elsewhere

 private:
  Scheduler::Config config() {
    Scheduler::Config config;
    config.plan = {.chunk_bytes = random_.between(1, 1000),
                   .alignment_bytes = 1u << random_.between(0, 6),
                   .max_message_bytes = random_.between(500, 2000)};
    config.reads.adaptive = random_.chance(500);
    config.reads.reads = config.reads.most_reads = random_.between(1, 20);
    config.reads.initial_bytes = random_.between(1, 10'000);
    config.reads.least_bytes = random_.between(1, 1000);
    config.reads.queue_bytes = config.reads.chunk_bytes = random_.between(1, 2000);
    config.reads.base_age = microseconds(random_.between(1, 1000));
    config.write_bytes = random_.between(0, 5000);
    config.small_bytes = small_bytes_ = random_.between(0, 3000);
    config.bypass_bytes = random_.between(0, 5000);
    chains_ = random_.chance(700);
    config.chain_bytes = chains_ ? random_.between(1, 10'000) : 0;
    config.measure_every = random_.between(1, 20);
    breaks_ = random_.chance(500);
    return config;
  }

  PeerId any_peer() { return PeerId{static_cast<std::uint32_t>(random_.below(peers_))}; }

  void open(PeerId peer) {
    max_reads_[index(peer)] = std::max(max_reads_[index(peer)], random_.between(1, 8));
    scheduler_.open_peer(peer, max_reads_[index(peer)]);
  }

  // A lane keeps its depth as long as it lives.
  void open_chain(PeerId peer) {
    std::uint32_t& reads = chain_reads_[index(peer)];
    if (reads == 0) reads = random_.between(1, 6);
    scheduler_.open_chain(peer, reads);
  }

  void submit() {
    TransferRequest request;
    request.kind = random_.chance(300) ? TransferKind::put : TransferKind::get;
    request.peer = any_peer();
    request.remote_address = random_.below(1 << 16);
    request.local_address = random_.below(1 << 16);
    request.length_bytes = random_.below(random_.chance(700) ? 2000 : 20'000);
    request.token = ++tokens_;
    request.movable = request.kind == TransferKind::get && random_.chance(800);
    expected_[tokens_] = {request.length_bytes, {}, 0, false, request.movable};
    peer_of_[tokens_] = request.peer;
    Chunk chunk;
    if (random_.chance(500) && scheduler_.submit_and_issue(request, chunk)) {
      seen_at_once = true;
      tokens_by_id_[chunk.transfer] = tokens_;
      EXPECT_EQ(chunk.length_bytes, request.length_bytes);
      book(chunk);
    } else {
      tokens_by_id_[scheduler_.submit(request)] = tokens_;
    }
  }

  bool issue() {
    Chunk chunk;
    return scheduler_.next(chunk) && book(chunk);
  }

  bool book(const Chunk& chunk) {
    const auto found = expected_.find(tokens_by_id_.at(chunk.transfer));
    EXPECT_NE(found, expected_.end());
    if (found == expected_.end()) return false;
    EXPECT_FALSE(found->second.cancelled);
    EXPECT_GT(chunk.length_bytes, 0u);
    EXPECT_TRUE(found->second.issued.emplace(chunk.offset, chunk.length_bytes).second);
    std::uint64_t issued = 0;
    for (const auto& [offset, bytes] : found->second.issued) issued += bytes;
    EXPECT_EQ(chunk.last, issued == found->second.length);
    if (chunk.kind == TransferKind::get && found->second.length > small_bytes_) {
      EXPECT_GE(found->first, latest_[chunk.peer]) << "passed by a later one of its peer";
      latest_[chunk.peer] = found->first;
    }
    under_way_.push_back({chunk, now_, false});
    return true;
  }

  void complete() {
    now_ = now_ + Duration{static_cast<std::int64_t>(random_.below(10'000))};
    if (under_way_.empty()) return;
    const std::size_t i = random_.below(under_way_.size());
    const UnderWay it = under_way_[i];
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
    const Chunk& chunk = it.chunk;
    const auto found = expected_.find(tokens_by_id_.at(chunk.transfer));
    const bool cancelled = found == expected_.end() || found->second.cancelled;
    if (cancelled && random_.chance(700)) {
      EXPECT_EQ(scheduler_.on_chunk_failed(chunk.transfer, chunk.length_bytes, chunk.chained),
                !it.dropped);
    } else {
      EXPECT_EQ(scheduler_.on_chunk_done(now_, chunk.transfer, chunk.length_bytes, now_ - it.posted,
                                         chunk.chained),
                !it.dropped);
    }
    if (!it.dropped && found != expected_.end()) found->second.completed += chunk.length_bytes;
  }

  void cancel(bool drop) {
    const PeerId peer = any_peer();
    for (auto& [token, expected] : expected_) {
      if (peer_of_[token] == peer && expected.completed < expected.length)
        expected.cancelled = true;
    }
    if (!drop) return scheduler_.cancel_peer(peer);
    for (UnderWay& it : under_way_) it.dropped |= it.chunk.peer == peer;
    scheduler_.drop_peer(peer);
    if (!random_.chance(500)) return;
    scheduler_.close_chain(peer);
    chain_reads_[index(peer)] = 0;
  }

  // Its transfers may be done over another rail meanwhile.
  void lose_lanes() {
    const PeerId peer = any_peer();
    if (random_.chance(500)) withdraw(peer);
    if (random_.chance(800)) break_lanes(peer);
  }

  void withdraw(PeerId peer) {
    scheduler_.withdraw(peer);
    for (TransferRequest request; scheduler_.next_withdrawn(request);) {
      const auto found = expected_.find(request.token);
      ASSERT_NE(found, expected_.end());
      EXPECT_TRUE(found->second.movable);
      EXPECT_EQ(peer_of_[request.token], peer);
      for (const UnderWay& it : under_way_) {
        EXPECT_TRUE(it.dropped || tokens_by_id_.at(it.chunk.transfer) != request.token);
      }
      expected_.erase(found);
      seen_withdrawn = true;
    }
  }

  // All of the peer's lanes break, or one of them. Whatever was under way goes again, and nothing
  // else.
  void break_lanes(PeerId peer) {
    const bool all = random_.chance(500);
    std::erase_if(under_way_, [&](const UnderWay& it) {
      if (it.chunk.peer != peer || it.dropped) return false;
      if (!all && random_.chance(500)) return false;
      Expected& expected = expected_.at(tokens_by_id_[it.chunk.transfer]);
      if (!expected.cancelled) {
        expected.issued.erase(it.chunk.offset);
        seen_again = true;
      }
      scheduler_.lose_chunk(it.chunk.transfer, it.chunk.offset, it.chunk.length_bytes,
                            it.chunk.chained);
      return true;
    });
    latest_.erase(peer);
    if (!all) return scheduler_.go_again(peer);
    EXPECT_TRUE(scheduler_.lose_lanes(peer));
    if (!random_.chance(500)) return;
    scheduler_.close_chain(peer);
    chain_reads_[index(peer)] = 0;
  }

  void check() {
    ASSERT_TRUE(scheduler_.conserved());
    const ChunkBudget& reads = scheduler_.reads();
    const ChunkBudget& writes = scheduler_.writes();
    // Beside what is reserved for chains one may always go.
    ASSERT_LE(reads.peak_chunks(), reads.chunk_limit() + (chains_ ? 1 : 0));
    ASSERT_TRUE(writes.chunks() <= 1 || writes.bytes() <= writes.byte_limit());
    // Chunks outstanding, counted from here.
    std::map<PeerId, std::uint32_t> by_peer;
    std::uint32_t gets = 0;
    std::uint32_t chained = 0;
    for (const UnderWay& it : under_way_) {
      if (it.dropped || it.chunk.kind != TransferKind::get) continue;
      chained += it.chunk.chained ? 1 : 0;
      if (it.chunk.chained) continue;
      ++gets;
      ++by_peer[it.chunk.peer];
    }
    ASSERT_LE(gets + (chained > 0 ? 1 : 0), reads.chunks());
    if (!chains_) {
      ASSERT_EQ(gets, reads.chunks());
    }
    seen_chained = seen_chained || chained > 0;
    for (const auto& [peer, count] : by_peer) ASSERT_LE(count, max_reads_[index(peer)]);
    FinishedTransfer finished;
    while (scheduler_.next_finished(finished)) {
      const auto found = expected_.find(finished.token);
      ASSERT_NE(found, expected_.end()) << "reported twice";
      ASSERT_EQ(finished.failed, found->second.cancelled);
      for (const UnderWay& it : under_way_) {
        ASSERT_TRUE(it.dropped || tokens_by_id_[it.chunk.transfer] != finished.token)
            << "reported with a chunk under way";
      }
      if (!finished.failed) {
        std::uint64_t covered = 0;
        for (const auto& [offset, bytes] : found->second.issued) {
          ASSERT_EQ(offset, covered);
          covered += bytes;
        }
        ASSERT_EQ(covered, found->second.length);
      }
      expected_.erase(found);
    }
  }

  struct UnderWay {
    Chunk chunk;
    Time posted;
    bool dropped;
  };

  sim::Random random_;
  bool chains_ = false;
  bool breaks_ = false;
  std::uint64_t small_bytes_ = 0;
  SchedulerWithPeers scheduler_;
  std::uint32_t peers_ = 0;
  std::vector<std::uint32_t> max_reads_;
  std::vector<std::uint32_t> chain_reads_;  // of its lane for chains; 0: there is none
  Time now_{1};
  std::uint64_t tokens_ = 0;
  std::map<std::uint64_t, Expected> expected_;
  std::map<std::uint64_t, PeerId> peer_of_;
  std::map<PeerId, std::uint64_t> latest_;  // of its large gets, the one whose turn it was last
  std::map<TransferId, std::uint64_t> tokens_by_id_;
  std::vector<UnderWay> under_way_;
};

TEST(SchedulerRandom, KeepsItsPromises) {
  int with_chains = 0;
  int with_some_at_once = 0;
  int with_some_again = 0;
  int with_some_withdrawn = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world(seed);
    world.run(400);
    if (HasFailure()) return;
    with_chains += world.seen_chained ? 1 : 0;
    with_some_at_once += world.seen_at_once ? 1 : 0;
    with_some_again += world.seen_again ? 1 : 0;
    with_some_withdrawn += world.seen_withdrawn ? 1 : 0;
  }
  EXPECT_GT(with_chains, 20);
  EXPECT_GT(with_some_at_once, 20);
  EXPECT_GT(with_some_again, 20);
  EXPECT_GT(with_some_withdrawn, 20);
}

// A read limit that moves is never exceeded by a chunk taken under it.
TEST(SchedulerRandom, TakesNothingBeyondTheLimitOfTheMoment) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    sim::Random random(seed);
    Scheduler::Config config;
    config.plan = {.chunk_bytes = 1000, .alignment_bytes = 1, .max_message_bytes = 4000};
    config.reads = {.adaptive = true,
                    .initial_bytes = 5000,
                    .least_bytes = 500,
                    .queue_bytes = 1000,
                    .chunk_bytes = 1000,
                    .base_age = microseconds(200)};
    SchedulerWithPeers scheduler(config);
    scheduler.open_peer(PeerId{0}, 1000);
    scheduler.submit({.peer = PeerId{0}, .length_bytes = 3'000'000});
    std::vector<std::pair<Chunk, Time>> under_way;
    Time now{};
    for (int i = 0; i < 5000; ++i) {
      const std::uint64_t before = scheduler.reads().bytes();
      Chunk chunk;
      if (scheduler.next(chunk)) {
        const bool alone = before == 0;
        ASSERT_TRUE(alone || scheduler.reads().bytes() <= scheduler.controller().bytes());
        under_way.emplace_back(chunk, now);
      } else {
        ASSERT_FALSE(under_way.empty()) << "stuck";
        now = now + Duration{static_cast<std::int64_t>(random.between(1, 20'000))};
        const std::size_t at = random.below(under_way.size());
        const auto [done, posted] = under_way[at];
        under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(at));
        scheduler.on_chunk_done(now, done.transfer, done.length_bytes, now - posted);
      }
      if (scheduler.idle() || scheduler.has_finished()) break;
    }
  }
}

// With n peers that always have work, none waits for more than two quanta of each other one.
TEST(SchedulerRandom, StarvesNoPeerAndNoTransfer) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    sim::Random random(seed);
    Scheduler::Config config;
    config.plan = {.chunk_bytes = 1000, .alignment_bytes = 64, .max_message_bytes = 4000};
    config.reads = {.adaptive = false, .reads = random.between(1, 10)};
    config.small_bytes = 2000;
    config.bypass_bytes = 4000;
    SchedulerWithPeers scheduler(config);
    const std::uint64_t quantum = scheduler.plan().largest_bytes();
    const std::uint32_t peers = random.between(2, 8);
    std::vector<std::uint64_t> bytes(peers);
    std::vector<std::uint64_t> waited(peers);
    std::vector<TransferId> huge(peers);
    std::vector<std::uint64_t> passed(peers);
    std::vector<std::uint32_t> small_under_way(peers);
    std::map<TransferId, bool> small;
    for (std::uint32_t p = 0; p < peers; ++p) {
      scheduler.open_peer(PeerId{p}, 1000);
      huge[p] = scheduler.submit(
          {.peer = PeerId{p}, .local_address = random.below(4096), .length_bytes = 1 << 30});
    }
    std::vector<Chunk> under_way;
    for (int i = 0; i < 5000; ++i) {
      const auto p = static_cast<std::uint32_t>(random.below(peers));
      if (random.chance(400)) {
        scheduler.submit({.peer = PeerId{p}, .length_bytes = random.between(1, 2000)});
      }
      Chunk chunk;
      if (!scheduler.next(chunk)) {
        const std::size_t at = random.below(under_way.size());
        scheduler.on_chunk_done({}, under_way[at].transfer, under_way[at].length_bytes, {});
        under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(at));
        for (FinishedTransfer f; scheduler.next_finished(f);) continue;
        continue;
      }
      under_way.push_back(chunk);
      const std::uint32_t who = index(chunk.peer);
      bytes[who] += chunk.length_bytes;
      for (std::uint64_t& w : waited) w += chunk.length_bytes;
      waited[who] = 0;
      passed[who] = chunk.transfer == huge[who] ? 0 : passed[who] + chunk.length_bytes;
      ASSERT_LT(passed[who], 4000 + quantum);
      for (std::uint64_t w : waited) ASSERT_LE(w, 2 * quantum * (peers - 1));
      const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
      ASSERT_LE(*most - *least, 2 * quantum) << "seed " << seed << " chunk " << i;
    }
  }
}

}  // namespace
}  // namespace weir
