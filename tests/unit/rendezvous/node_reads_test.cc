// One read budget for all processes of a node.
#include "rendezvous/node_reads.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "rendezvous/scheduler_with_peers.h"

namespace weir {
namespace {

constexpr std::uint32_t chunk_bytes = 8192;  // two tokens
constexpr std::uint32_t processes = 4;

Scheduler::Config world(std::uint32_t reads) {
  Scheduler::Config config;
  config.plan = {.chunk_bytes = chunk_bytes, .alignment_bytes = 64, .max_message_bytes = 1 << 20};
  config.reads = {.adaptive = false, .reads = reads};
  return config;
}

class NodeReadsTest : public ::testing::Test {
 protected:
  struct Process {
    PoolMember::Pool pool;
    SchedulerWithPeers scheduler;
    std::vector<Chunk> out;

    Process(PoolMember::Pool with, const Scheduler::Config& config)
        : pool(with), scheduler(config) {
      scheduler.join_node(&pool);
      scheduler.open_peer(PeerId{0}, 64);
    }
    std::size_t issue() {
      const std::size_t before = out.size();
      for (Chunk chunk; scheduler.next(chunk);) out.push_back(chunk);
      return out.size() - before;
    }
    void read(std::uint64_t chunks) {
      scheduler.submit(
          {.peer = PeerId{0}, .local_address = 0x40000, .length_bytes = chunks * chunk_bytes});
    }
    void complete() {
      const Chunk chunk = out.back();
      out.pop_back();
      scheduler.on_chunk_done({}, chunk.transfer, chunk.length_bytes, {}, chunk.chained);
    }
  };

  Process& add(const Scheduler::Config& config) {
    PoolMember::Pool pool(head_, slots_, PoolMember::most_tokens);
    const auto id = static_cast<std::uint32_t>(members_.size()) + 1;
    EXPECT_TRUE(pool.join({id, 1}, [](ProcessId) { return true; }));
    members_.push_back(std::make_unique<Process>(pool, config));
    return *members_.back();
  }
  std::size_t outstanding() const {
    std::size_t chunks = 0;
    for (const auto& member : members_) chunks += member->out.size();
    return chunks;
  }
  void expect_conserved() const {
    for (const auto& member : members_) EXPECT_TRUE(member->scheduler.conserved());
  }

  PoolHead<SharedWord> head_{};
  std::array<PoolSlot<SharedWord>, processes> slots_{};
  std::vector<std::unique_ptr<Process>> members_;
};

TEST_F(NodeReadsTest, AllProcessesTogetherKeepWithinC) {
  for (std::uint32_t i = 0; i < processes; ++i) add(world(4)).read(10);
  for (int round = 0; round < 50; ++round) {
    for (auto& member : members_) member->issue();
    ASSERT_LE(outstanding(), 4u);
    expect_conserved();
    for (auto& member : members_) {
      if (!member->out.empty()) member->complete();
    }
  }
  for (auto& member : members_) EXPECT_EQ(member->scheduler.counts().done, 1u);
  EXPECT_EQ(members_[0]->pool.asked(), 0u);
  EXPECT_GT(members_[0]->scheduler.counts().node_stalls, 0u);
}

TEST_F(NodeReadsTest, WhoAsksFirstReadsFirst) {
  Process& a = add(world(2));
  Process& b = add(world(2));
  Process& c = add(world(2));
  a.read(4);
  b.read(1);
  c.read(1);
  EXPECT_EQ(a.issue(), 2u);
  EXPECT_EQ(b.issue(), 0u);
  EXPECT_EQ(c.issue(), 0u);
  a.complete();
  EXPECT_EQ(a.issue(), 0u);  // it has asked before b, and that is still its turn
  EXPECT_EQ(a.out.size(), 1u);
}

TEST_F(NodeReadsTest, ALoneProcessHasAll) {
  Process& a = add(world(8));
  add(world(8));
  a.read(20);
  EXPECT_EQ(a.issue(), 8u);
  EXPECT_FALSE(a.scheduler.waits_for_node());
}

TEST_F(NodeReadsTest, AWindowSmallerThanAChunkStillMoves) {
  Scheduler::Config config = world(1);
  config.reads = {.adaptive = true,
                  .initial_bytes = 100,
                  .least_bytes = 100,
                  .most_bytes = 100,
                  .queue_bytes = 100};
  Process& a = add(config);
  Process& b = add(config);
  a.read(2);
  b.read(2);
  const auto done = [](const Process& p) { return p.scheduler.counts().done == 1; };
  for (int i = 0; i < 100 && !(done(a) && done(b)); ++i) {
    a.issue();
    b.issue();
    ASSERT_EQ(outstanding(), 1u);
    (a.out.empty() ? b : a).complete();
  }
  EXPECT_TRUE(done(a) && done(b));
}

TEST_F(NodeReadsTest, APeerThatFailsGivesBackWhatItsReadsHad) {
  Process& a = add(world(2));
  Process& b = add(world(2));
  a.read(4);
  b.read(2);
  EXPECT_EQ(a.issue(), 2u);
  EXPECT_EQ(b.issue(), 0u);
  a.scheduler.drop_peer(PeerId{0});
  a.out.clear();
  EXPECT_EQ(a.issue(), 0u);
  expect_conserved();
  // b goes on behind the ticket that a had drawn for its next chunk, which a has to decline.
  for (int i = 0; i < 3 && b.out.size() < 2; ++i) {
    b.issue();
    a.issue();
  }
  EXPECT_EQ(b.out.size(), 2u);
}

TEST_F(NodeReadsTest, AChainMakesWayForAnotherProcess) {
  Scheduler::Config config = world(4);
  config.chain_bytes = chunk_bytes;
  Process& a = add(config);
  Process& b = add(config);
  a.scheduler.open_chain(PeerId{0}, 4);
  a.read(16);
  Chunk chunk;
  ASSERT_TRUE(a.scheduler.next(chunk));
  a.out.push_back(chunk);
  EXPECT_TRUE(chunk.chained);
  EXPECT_EQ(a.pool.asked(), 8u);  // four chunks of two tokens for the whole chain
  b.read(4);
  EXPECT_EQ(b.issue(), 0u);
  EXPECT_EQ(a.issue(), 0u);  // the rest goes chunk by chunk, and waits like others
  EXPECT_EQ(a.scheduler.counts().chains_left, 1u);
  a.complete();
  EXPECT_EQ(b.issue(), 3u);
  EXPECT_EQ(a.issue(), 1u);  // whose ticket was between b's first and second
  expect_conserved();
}

TEST_F(NodeReadsTest, NoChainWhileAnotherProcessReads) {
  Scheduler::Config config = world(4);
  config.chain_bytes = chunk_bytes;
  Process& a = add(config);
  Process& b = add(config);
  a.scheduler.open_chain(PeerId{0}, 4);
  b.read(1);
  EXPECT_EQ(b.issue(), 1u);
  a.read(16);
  Chunk chunk;
  ASSERT_TRUE(a.scheduler.next(chunk));
  EXPECT_FALSE(chunk.chained);
}

}  // namespace
}  // namespace weir
