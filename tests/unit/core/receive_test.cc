// Arrival: deliveries, credits given back, the receive window, and peers that break the rules.
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/core/rig.h"

namespace weir {
namespace {

using rig::other;
using rig::Rig;
using wire::FrameKind;

TEST(Receive, DeliversEveryMessageAndKeepsTheBufferUntilReleased) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  const std::uint64_t posted = rig.core.counters().receives_posted;
  rig.arrive(lane, {}, 3);
  const auto deliveries = rig.take_deliveries();
  ASSERT_EQ(deliveries.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(deliveries[i].tag, i);
    EXPECT_EQ(deliveries[i].length_bytes, 8u);
    EXPECT_EQ(deliveries[i].last, i == 2);
    EXPECT_EQ(deliveries[i].buffer, deliveries[0].buffer);
  }
  EXPECT_EQ(rig.core.counters().receives_posted, posted - 1);
  for (int i = 0; i < 3; ++i) rig.pump();
  EXPECT_EQ(rig.core.counters().receives_posted, posted - 1);
  EXPECT_TRUE(rig.core.conserved());
}

TEST(Receive, GivesCreditsBackByAControlFrameWhenHalfIsSpent) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  ASSERT_EQ(rig.granted, 8u);
  for (int i = 0; i < 3; ++i) {
    rig.arrive(lane, {});
    rig.core.release(rig.take_deliveries().at(0).buffer);
    rig.pump();
    EXPECT_TRUE(rig.take_work().empty()) << i;
  }
  rig.arrive(lane, {});
  rig.core.release(rig.take_deliveries().at(0).buffer);
  rig.pump();
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).kind, FrameKind::credits);
  EXPECT_EQ(rig.header_of(work[0]).credits, 4);
  EXPECT_TRUE(work[0].signalled);
}

TEST(Receive, PiggybacksCredits) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.accept(other, 8);
  rig.arrive(lane, {});
  rig.core.release(rig.take_deliveries().at(0).buffer);
  rig.send(peer);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).credits, 1);
}

// Credits leave only when their buffers are posted: the posts are in the same box, before.
TEST(Receive, PostsBeforeItPromises) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.accept(other, 8);
  for (int round = 0; round < 50; ++round) {
    std::vector<BufferId> held;
    for (int i = 0; i < 3; ++i) {
      rig.arrive(lane, {.credits = 1});
      held.push_back(rig.take_deliveries().at(0).buffer);
    }
    for (const BufferId buffer : held) rig.core.release(buffer);
    rig.send(peer);  // no pump in between
    ASSERT_GE(rig.posted.size(), rig.core.standing(peer).credits_out) << round;
    for (const WorkRequest& work : rig.take_work()) {
      if (work.signalled) rig.complete(work);
    }
    rig.core.begin_round();
  }
}

TEST(Receive, CreditFramesNeedControlCredits) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  const PeerId peer = rig.core.peer_of(lane);
  int frames = 0;
  for (int i = 0; i < 40; ++i) {
    if (rig.core.standing(peer).credits_out == 0) break;
    rig.arrive(lane, {});
    rig.core.release(rig.take_deliveries().at(0).buffer);
    rig.pump();
    for (const WorkRequest& work : rig.take_work()) {
      ++frames;
      rig.complete(work);
    }
  }
  EXPECT_EQ(frames, 2);  // all that the peer allowed
  EXPECT_EQ(rig.core.standing(peer).credits_out, 0u);
  EXPECT_EQ(rig.core.standing(peer).control_credits, 0u);
  // A credit frame of the peer brings one back, and the next pump uses it.
  rig.arrive(lane, {.kind = FrameKind::credits, .control_credits = 1});
  rig.pump();
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).credits, 8);
  EXPECT_EQ(rig.header_of(work[0]).control_credits, 1);
}

TEST(Receive, ControlCreditsComeBackWithEveryFrame) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  const PeerId peer = rig.core.peer_of(lane);
  for (int i = 0; i < 100; ++i) {
    rig.arrive(lane, {.kind = FrameKind::credits, .credits = 1});
    rig.send(peer, 600);
    const auto work = rig.take_work();
    ASSERT_EQ(work.size(), 1u) << i;
    EXPECT_EQ(rig.header_of(work[0]).control_credits, 1);
    rig.complete(work[0]);
    rig.pump();
  }
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
}

TEST(Receive, AFrameCanOvertakeTheConfirmation) {
  Rig rig;
  rig.core.on_request(rig.now, RequestId{1}, rig.hello(other), rig.out);
  rig.settle();
  const LaneId lane = rig.take_connects().at(0).lane;
  rig.arrive(lane, {});
  EXPECT_EQ(rig.core.state(rig.core.peer_of(lane)), PeerState::ready);
  EXPECT_EQ(rig.take_deliveries().size(), 1u);
  rig.core.on_established(rig.now, lane, rig.out);
  rig.core.on_connect_failed(rig.now, lane, FailReason::connect_timeout, rig.out);
  EXPECT_EQ(rig.core.state(rig.core.peer_of(lane)), PeerState::ready);
  EXPECT_EQ(rig.core.counters().connections, 1u);
}

TEST(Receive, AFrameThatOvertakesTheAnswerLosesNoCredits) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.send(peer);
  const LaneId lane = rig.take_connects().at(0).lane;
  for (int i = 0; i < 4; ++i) rig.arrive(lane, {.credits = 1});
  for (const Delivery& delivery : rig.take_deliveries()) rig.core.release(delivery.buffer);
  rig.pump();  // not ready: nothing can be given back yet
  rig.core.on_answer(rig.now, lane, rig.hello(other, 3), rig.out);
  EXPECT_EQ(rig.core.standing(peer).credits, 4u + 3u - 1u);
  EXPECT_EQ(rig.core.standing(peer).credits_out, 8u);  // with the first frame
}

// ---- the receive window ----

TEST(Window, GrowsOnTheLimitEventAndArmsAgain) {
  Rig rig;
  rig.core.on_srq_limit(rig.out);
  EXPECT_EQ(rig.out.slab_buffers, 16u);
  rig.settle();
  EXPECT_EQ(rig.core.counters().window, 32u);
  EXPECT_EQ(rig.posted.size(), 32u);
  EXPECT_TRUE(rig.out.arm);
  EXPECT_EQ(rig.out.srq_arm.limit, 16u);
}

TEST(Window, IsNotArmedWhereItCannotGrow) {
  Rig rig;
  rig.core.on_srq_limit(rig.out);
  rig.settle();
  rig.out.arm = false;
  rig.core.on_srq_limit(rig.out);
  rig.settle();
  EXPECT_EQ(rig.core.counters().window, 64u);
  EXPECT_FALSE(rig.out.arm);
  rig.core.on_srq_limit(rig.out);  // one that was under way
  EXPECT_FALSE(rig.out.arm);
  EXPECT_EQ(rig.core.counters().window, 64u);
}

TEST(Window, RaisesTheEventItselfWhenItIsBelowTheLimitWhileArming) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  for (int i = 0; i < 8; ++i) rig.arrive(lane, {});
  rig.core.on_srq_limit(rig.out);
  rig.settle();
  EXPECT_GE(rig.posted.size(), rig.out.srq_arm.limit);
}

TEST(Window, GrowsWhenAPeerStarvesAndWeAreIdle) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  for (int i = 0; i < 8; ++i) {
    rig.arrive(lane, {.starved = i == 7});
    rig.core.release(rig.take_deliveries().at(0).buffer);
  }
  rig.core.on_drained(rig.out);
  rig.settle();
  EXPECT_EQ(rig.core.counters().window, 32u);
  EXPECT_EQ(rig.core.counters().window_demands, 1u);
  rig.core.on_drained(rig.out);
  EXPECT_EQ(rig.core.counters().window, 32u);
}

TEST(Window, StaysWhereMemoryEnds) {
  Rig rig;
  rig.slab_fails = true;
  rig.core.on_srq_limit(rig.out);
  rig.settle();
  EXPECT_EQ(rig.core.counters().window, 16u);
  EXPECT_EQ(rig.core.counters().slab_failures, 1u);
  rig.slab_fails = false;
  rig.core.on_srq_limit(rig.out);
  EXPECT_EQ(rig.out.slab_buffers, 0u);
}

TEST(Window, WithoutAnyMemoryAtTheStartAsksOnlyOnce) {
  Core core(rig::small_config());
  Outbox out;
  core.start(out);
  EXPECT_EQ(out.slab_buffers, 16u);
  out.slab_buffers = 0;
  core.on_slab_failed(out);
  EXPECT_EQ(out.slab_buffers, 0u);
  EXPECT_EQ(core.counters().receive_bytes, 0u);
}

// The first peer took every credit there was; the second finds a window with room for it.
TEST(Window, MakesRoomForEveryPeerThatJoins) {
  Rig rig;
  rig.core.expect_peers(10);
  for (std::uint32_t rank = 10; rank < 20; ++rank) {
    rig.accept({1, rank});
    EXPECT_GE(rig.granted, 2u) << rank;
  }
  EXPECT_EQ(rig.core.counters().credits_overcommitted, 0u);
  for (std::uint32_t rank = 20; rank < 60; ++rank) {
    rig.accept({1, rank});
    EXPECT_GE(rig.granted, 2u) << rank;
  }
  EXPECT_EQ(rig.core.counters().window, 64u);
  EXPECT_GT(rig.core.counters().credits_overcommitted, 0u);  // 50 peers do not fit; counted
}

// ---- peers that break the rules ----

void expect_bad(const std::function<void(Rig&, LaneId)>& misdeed) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  misdeed(rig, lane);
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].reason, FailReason::bad_frame);
  EXPECT_EQ(rig.core.state(failures[0].peer), PeerState::failed);
  for (const Delivery& delivery : rig.take_deliveries()) rig.core.release(delivery.buffer);
  rig.pump();
  EXPECT_TRUE(rig.core.conserved());
  EXPECT_EQ(rig.core.counters().credits_out, 0u);
}

TEST(BadPeer, SendsJunk) {
  expect_bad([](Rig& rig, LaneId lane) {
    rig.arrive_bytes(lane, std::vector<std::byte>(40, std::byte{0xff}));
  });
  expect_bad([](Rig& rig, LaneId lane) { rig.arrive_bytes(lane, {}); });
}

TEST(BadPeer, SkipsOrRepeatsAFrame) {
  expect_bad([](Rig& rig, LaneId lane) {
    rig.sequence = 1;
    rig.arrive(lane, {});
  });
  expect_bad([](Rig& rig, LaneId lane) {
    rig.arrive(lane, {});
    rig.sequence = 0;
    rig.arrive(lane, {});
  });
}

TEST(BadPeer, OverrunsItsCredits) {
  expect_bad([](Rig& rig, LaneId lane) {
    for (std::uint32_t i = 0; i <= rig.granted; ++i) rig.arrive(lane, {});
  });
}

TEST(BadPeer, SendsTooManyControlFrames) {
  expect_bad([](Rig& rig, LaneId lane) {
    for (int i = 0; i < 3; ++i) rig.arrive(lane, {.kind = FrameKind::credits});
  });
}

TEST(BadPeer, ReturnsControlCreditsThatItNeverHad) {
  expect_bad([](Rig& rig, LaneId lane) { rig.arrive(lane, {.control_credits = 1}); });
  expect_bad([](Rig& rig, LaneId lane) { rig.arrive(lane, {.control_credits = 254}); });
}

TEST(BadPeer, SendsAfterItsGoodbye) {
  expect_bad([](Rig& rig, LaneId lane) {
    rig.arrive(lane, {.kind = FrameKind::goodbye});
    rig.arrive(lane, {});
  });
}

TEST(BadPeer, GrantsWithoutEnd) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  rig.arrive(lane, {.kind = FrameKind::credits, .credits = 65535});
  EXPECT_TRUE(rig.take_failures().empty());
  const PeerId peer = rig.core.peer_of(lane);
  for (int i = 0; i < 300 && rig.core.state(peer) == PeerState::ready; ++i) {
    rig.send(peer, 600, true);  // returns the control credit
    for (const WorkRequest& work : rig.take_work()) {
      if (rig.core.state(peer) == PeerState::ready) rig.complete(work);
    }
    rig.arrive(lane, {.kind = FrameKind::credits, .credits = 65535});
  }
  EXPECT_EQ(rig.core.state(peer), PeerState::failed);
}

TEST(Receive, CompletionsNobodyKnowsAreHarmless) {
  Rig rig;
  const std::size_t posted = rig.posted.size();
  rig.arrive_bytes(LaneId::none, std::vector<std::byte>(16));  // of a lane dropped before
  rig.arrive_bytes(LaneId{77}, std::vector<std::byte>(16));
  rig.core.on_completion(rig.now, {Opcode::receive, CompletionStatus::success, 8, LaneId{0}, 9999},
                         rig.out);
  rig.core.on_completion(rig.now, {Opcode::send, CompletionStatus::success, 0, LaneId{3}, 0},
                         rig.out);
  rig.pump();
  EXPECT_EQ(rig.posted.size(), posted);
  EXPECT_TRUE(rig.core.conserved());
  EXPECT_TRUE(rig.take_failures().empty());
}

}  // namespace
}  // namespace weir
