// Frames and chunks that wait for tokens of the node: in turn, and never forgotten.
#include "transport/core/node_line.h"

#include <array>

#include "tests/unit/core/rooms.h"
#include "transport/core/transfers.h"

namespace weir::rig {
namespace {

struct Node {
  PoolHead<SharedWord> head{};
  std::array<PoolSlot<SharedWord>, 40> slots{};
  PoolMember::Pool join(std::uint32_t pid) {
    PoolMember::Pool pool(head, slots, PoolMember::most_tokens);
    EXPECT_TRUE(pool.join({pid, 1}, [](ProcessId) { return true; }));
    return pool;
  }
};

Core::Config counted(std::uint32_t tokens) {
  Core::Config config = small_config();
  config.admission.policy = Admission::Policy::always;
  config.admission.tokens = tokens;
  config.transfers.plan = {.chunk_bytes = 4096, .alignment_bytes = 64};
  config.transfers.reads = {.adaptive = false, .reads = 8};
  return config;
}

// A core in a node with one more process, whose pool it is played by.
struct NodeRig : Rig {
  explicit NodeRig(std::uint32_t tokens)
      : Rig(counted(tokens)), pool(node.join(1)), neighbour(node.join(2)) {
    core.join_node(&pool, nullptr);
    others.join(&neighbour);
    peer = core.add_peer(rig::other);
  }
  void look() {
    core.look_at_node(now, out);
    settle();
  }
  void take_all(std::uint32_t tokens) {
    ASSERT_TRUE(others.ensure(tokens, tokens));
    others.commit();
  }

  Node node;
  PoolMember::Pool pool;
  PoolMember::Pool neighbour;
  PoolMember others;
  PeerId peer;
};

TEST(CoreNode, AFrameTakesATokenUntilItIsComplete) {
  NodeRig rig(4);
  rig.connect(rig.peer);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_TRUE(work[0].signalled);  // or nobody would hear that its token is free
  EXPECT_EQ(rig.core.counters().tokens_out, 1u);
  EXPECT_TRUE(rig.core.needs_attendance());
  rig.complete(work[0]);
  EXPECT_EQ(rig.core.counters().tokens_out, 0u);
  EXPECT_FALSE(rig.core.needs_attendance());
  EXPECT_EQ(rig.pool.asked(), 0u);
}

TEST(CoreNode, AFrameWithoutATokenWaitsAndGoesWhenThereIsOne) {
  NodeRig rig(2);
  rig.take_all(2);
  rig.connect(rig.peer);
  EXPECT_TRUE(rig.take_work().empty());
  EXPECT_TRUE(rig.core.waits_for_node());
  EXPECT_EQ(rig.core.row(rig.peer).wait, PeerRow::Wait::tokens);
  rig.look();
  EXPECT_TRUE(rig.take_work().empty());
  rig.others.give(2);
  rig.look();
  EXPECT_EQ(rig.take_work().size(), 1u);
  EXPECT_FALSE(rig.core.waits_for_node());
  EXPECT_TRUE(rig.core.conserved());
}

TEST(CoreNode, ControlFramesNeedNone) {
  NodeRig rig(1);
  rig.take_all(1);
  const LaneId lane = rig.accept(other);
  rig.take_work();
  for (std::uint32_t i = 0; i < rig.granted; ++i) {
    rig.arrive(lane, {});
    for (const Delivery& delivery : rig.take_deliveries()) rig.core.release(delivery.buffer);
  }
  rig.pump();
  const auto work = rig.take_work();
  ASSERT_FALSE(work.empty());
  EXPECT_EQ(rig.header_of(work[0]).kind, wire::FrameKind::credits);
}

TEST(CoreNode, PeersThatWaitHaveOneFrameEachInTurn) {
  NodeRig rig(1);
  const PeerId second = rig.core.add_peer(lesser);
  rig.connect(rig.peer, 8);
  rig.connect(second, 8);
  // The first frame to each connected it; the second one waits for the first one's token.
  std::vector<LaneId> order;
  for (int i = 0; i < 2; ++i) {
    rig.send(rig.peer, 200);
    rig.send(second, 200);
  }
  for (int i = 0; i < 6; ++i) {
    rig.pump();
    const auto work = rig.take_work();
    ASSERT_EQ(work.size(), 1u) << i;  // one token
    order.push_back(work[0].lane);
    rig.complete(work[0]);
    rig.look();
  }
  for (std::size_t i = 1; i < 5; ++i) EXPECT_NE(order[i], order[i - 1]) << i;
}

TEST(CoreNode, ChunksAndFramesTakeTurns) {
  NodeRig rig(1);
  rig.connect(rig.peer, 8);
  rig.complete(rig.take_work().at(0));
  rig.take_all(1);
  rig.core.transfer(rig.now, {.peer = rig.peer, .local_address = 0x40000, .length_bytes = 3 * 4096},
                    rig.out);
  for (int i = 0; i < 3; ++i) rig.send(rig.peer, 200);
  rig.others.give(1);
  std::vector<Opcode> order;
  for (int i = 0; i < 6; ++i) {
    rig.look();
    auto work = rig.take_work();
    if (work.empty()) {
      rig.pump();
      work = rig.take_work();
    }
    ASSERT_EQ(work.size(), 1u) << i;
    order.push_back(work[0].opcode);
    rig.complete(work[0]);
    for (const WorkRequest& more : rig.take_work()) {
      order.push_back(more.opcode);
      rig.complete(more);
    }
    if (order.size() >= 6) break;
  }
  ASSERT_EQ(order.size(), 6u);
  for (std::size_t i = 1; i < 6; ++i) EXPECT_NE(order[i], order[i - 1]) << i;
  EXPECT_EQ(rig.pool.asked(), 0u);
}

TEST(CoreNode, AFailedPeerGivesBackItsTokensAndItsTurn) {
  NodeRig rig(2);
  const LaneId lane = rig.connect(rig.peer, 8);
  rig.send(rig.peer, 200);
  rig.send(rig.peer, 200);
  rig.pump();
  EXPECT_EQ(rig.core.counters().tokens_out, 2u);
  EXPECT_TRUE(rig.core.waits_for_node());
  rig.core.on_lane_error(rig.now, lane, rig.out);
  rig.settle();
  for (int i = 0; i < 3; ++i) rig.look();
  EXPECT_FALSE(rig.core.waits_for_node());
  EXPECT_EQ(rig.core.counters().tokens_out, 0u);
  EXPECT_EQ(rig.pool.asked(), 0u);
  EXPECT_FALSE(rig.core.needs_attendance());
}

// Two looks, and those who have tokens did nothing between them.
TEST(CoreNode, WhoDoesNotMoveIsNotWaitedFor) {
  NodeRig rig(2);
  rig.take_all(2);
  rig.connect(rig.peer);
  for (int i = 0; i < 4 && rig.out.work.empty(); ++i) {
    rig.look();
    rig.now = rig.now + milliseconds(20);
  }
  EXPECT_EQ(rig.take_work().size(), 1u);
  EXPECT_EQ(rig.core.counters().tokens_excused, 2u);
}

// The node's reads. Another process has begun as many as there may be.
struct ReadsRig : Rig {
  ReadsRig() : Rig(config()), reads(node.join(1)), neighbour(node.join(2)) {
    core.join_node(nullptr, &reads);
    others.join(&neighbour);
    peer = core.add_peer(rig::other);
    connect(peer);
    for (const WorkRequest& work : take_work()) complete(work);
    EXPECT_TRUE(others.ensure(8 * 4096, 8 * 4096));
    tokens = others.commit();
    core.transfer(now, {.peer = peer, .local_address = 0x40000, .length_bytes = 4096}, out);
    EXPECT_TRUE(take_work().empty());
    EXPECT_TRUE(core.waits_for_node());
  }
  static Core::Config config() {
    Core::Config config = small_config();
    config.transfers.plan = {.chunk_bytes = 4096, .alignment_bytes = 64};
    config.transfers.reads = {.adaptive = false, .reads = 8};
    return config;
  }

  Node node;
  PoolMember::Pool reads;
  PoolMember::Pool neighbour;
  NodeReads others;
  std::uint32_t tokens = 0;
  PeerId peer;
};

// Polls see a few others each, in turn. Whoever looks seldom sees all.
TEST(CoreNode, WhoLooksSeldomHearsOfATokenAtOnce) {
  NodeRig rig(4);
  for (std::uint32_t pid = 3; pid < 40; ++pid) rig.node.join(pid);
  PoolMember::Pool last = rig.node.join(40);
  rig.others.join(&last);
  rig.take_all(4);
  rig.connect(rig.peer);
  rig.look();
  rig.others.give(4);
  rig.look();
  EXPECT_TRUE(rig.take_work().empty());
  rig.now = rig.now + milliseconds(1);
  rig.look();
  EXPECT_EQ(rig.take_work().size(), 1u);
}

TEST(CoreNode, AReadWaitsForTheNodesBudgetAndGoesWhenThereIsRoom) {
  ReadsRig rig;
  rig.others.give(rig.tokens);
  rig.core.look_at_node(rig.now, rig.out);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  rig.complete(work[0]);
  EXPECT_FALSE(rig.core.waits_for_node());
}

TEST(CoreNode, AReaderThatDoesNotMoveIsNotWaitedFor) {
  ReadsRig rig;
  for (int i = 0; i < 4 && rig.out.work.empty(); ++i) {
    rig.core.look_at_node(rig.now, rig.out);
    rig.now = rig.now + milliseconds(20);
  }
  EXPECT_EQ(rig.take_work().size(), 1u);
  EXPECT_EQ(rig.core.counters().tokens_excused, rig.tokens);
}

TEST(CoreNode, WithoutAPoolFramesKeepTheirDistance) {
  Core::Config config = counted(1);
  for (unsigned size = 0; size < size_classes; ++size) {
    config.admission.rate.set_delay(size, microseconds(10));
  }
  Rig rig(config);
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 8);
  EXPECT_EQ(rig.take_work().size(), 1u);
  rig.send(peer, 200);
  rig.pump();
  EXPECT_TRUE(rig.take_work().empty());
  rig.now = rig.now + microseconds(10);
  rig.core.look_at_node(rig.now, rig.out);
  EXPECT_EQ(rig.take_work().size(), 1u);
  EXPECT_EQ(rig.core.counters().rate_waits, 1u);
}

// ---- by itself

struct Line : Rooms {
  explicit Line(std::uint32_t tokens)
      : Rooms(counted(tokens)), pool(node.join(1)), neighbour(node.join(2)) {
    line.join(&pool);
    others.join(&neighbour);
  }
  // A frame of this peer asks, as the sender does for one that waits.
  bool ask(Peer& peer) {
    SendSlot* const frame = slot();
    frame->frame_bytes = 100;
    frame->tokens = 0;
    return line.admit(now, peer, *frame);
  }

  Node node;
  PoolMember::Pool pool;
  PoolMember::Pool neighbour;
  PoolMember others;
  Transfers transfers{config, counters, peers, lanes, sender, connector};
  NodeLine line{config, counters, sender, transfers};
};

TEST(NodeLine, WithoutLimitsNobodyWaits) {
  Rooms rooms;
  Transfers transfers(rooms.config, rooms.counters, rooms.peers, rooms.lanes, rooms.sender,
                      rooms.connector);
  NodeLine line(rooms.config, rooms.counters, rooms.sender, transfers);
  SendSlot* const frame = rooms.slot();
  EXPECT_FALSE(line.on());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(line.admit(rooms.now, rooms.add(rig::other), *frame));
  EXPECT_FALSE(line.waits());
  EXPECT_FALSE(line.holds_tokens());
}

TEST(NodeLine, TokensAreTakenUntilRequestsAreOver) {
  Line rooms(3);
  Peer& peer = rooms.add(rig::other);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(rooms.ask(peer)) << i;
  EXPECT_EQ(rooms.counters.tokens_out, 3u);
  EXPECT_FALSE(rooms.ask(peer));
  EXPECT_TRUE(rooms.line.waits());
  for (int i = 0; i < 3; ++i) rooms.line.on_over(1);
  EXPECT_FALSE(rooms.line.holds_tokens());
}

TEST(NodeLine, WhoComesLaterStandsBehindWhoWaits) {
  Line rooms(1);
  ASSERT_TRUE(rooms.others.ensure(1, 1));
  rooms.others.commit();
  Peer& first = rooms.connect(rig::other, 8);
  Peer& second = rooms.connect(rig::lesser, 8);
  EXPECT_FALSE(rooms.ask(first));
  EXPECT_FALSE(rooms.ask(second));
  rooms.line.look(rooms.now, rooms.out);
  EXPECT_TRUE(first.waits.linked && second.waits.linked);
  rooms.others.give(1);
  EXPECT_FALSE(rooms.ask(second)) << "it passed the one that waits";
  rooms.line.look(rooms.now, rooms.out);
  EXPECT_FALSE(first.waits.linked);
}

TEST(NodeLine, WhoIsForgottenHasNoTurnAndKeepsNobodyWaiting) {
  Line rooms(1);
  ASSERT_TRUE(rooms.others.ensure(1, 1));
  rooms.others.commit();
  Peer& peer = rooms.connect(rig::other, 8);
  EXPECT_FALSE(rooms.ask(peer));
  rooms.line.forget(peer);
  rooms.others.give(1);
  rooms.line.look(rooms.now, rooms.out);
  EXPECT_FALSE(rooms.line.waits());
  EXPECT_FALSE(rooms.line.holds_tokens());  // what its ticket got is the node's again
  EXPECT_EQ(rooms.pool.asked(), 0u);
}

}  // namespace
}  // namespace weir::rig
