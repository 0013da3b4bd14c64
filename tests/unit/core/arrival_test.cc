// Arrival: deliveries, credits given back, the receive window, and peers that break the rules.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

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

TEST(Receive, GivesCreditsBackByAControlFrameWhenMoreThanHalfIsSpent) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  ASSERT_EQ(rig.granted, 8u);
  for (int i = 0; i < 4; ++i) {
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
  EXPECT_EQ(rig.header_of(work[0]).credits, 5);
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

// What goes to the peer anyway carries them, in an exchange that is not in step, too.
TEST(Receive, WhoAnswersSendsACreditFrameOnlyToAPeerWithoutCredits) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.accept(other, 8);
  const auto take = [&] {
    rig.arrive(lane, {.credits = 1});
    rig.core.release(rig.take_deliveries().at(0).buffer);
    rig.pump();
  };
  const auto sent = [&] {
    std::vector<FrameKind> kinds;
    for (const WorkRequest& work : rig.take_work()) {
      kinds.push_back(rig.header_of(work).kind);
      rig.complete(work);
    }
    return kinds;
  };
  for (int i = 0; i < 20; ++i) {
    take();
    rig.send(peer);
    ASSERT_EQ(sent(), std::vector{FrameKind::messages});
  }
  ASSERT_EQ(rig.core.standing(peer).credits_out, 8u);
  for (int i = 0; i < 7; ++i) {
    take();
    ASSERT_TRUE(sent().empty()) << i;
  }
  take();
  EXPECT_EQ(sent(), std::vector{FrameKind::credits});
  EXPECT_EQ(rig.core.standing(peer).credits_out, 8u);
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

// The same for a control frame, whatever was called before it.
TEST(Receive, PostsBeforeItPromisesInAControlFrame) {
  Rig rig;
  const LaneId lane = rig.accept(other, 8);
  const PeerId peer = rig.core.peer_of(lane);
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 5; ++i) {
      rig.arrive(lane, {.control_credits = static_cast<std::uint8_t>(round > 0 && i == 0)});
      rig.core.release(rig.take_deliveries().at(0).buffer);
    }
    rig.core.give_back_credits(rig.out);  // no pump
    rig.settle();
    ASSERT_GE(rig.posted.size(), rig.core.standing(peer).credits_out) << round;
    const auto work = rig.take_work();
    ASSERT_EQ(work.size(), 1u) << round;
    rig.complete(work[0]);
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
  const ConnectAction request = rig.take_connects().at(0);
  const LaneId lane = request.lane;
  for (int i = 0; i < 4; ++i) rig.arrive(lane, {.credits = 1});
  for (const Delivery& delivery : rig.take_deliveries()) rig.core.release(delivery.buffer);
  rig.pump();  // not ready: nothing can be given back yet
  rig.core.on_answer(rig.now, lane, rig.answer(request, 3), rig.out);
  EXPECT_EQ(rig.core.standing(peer).credits, 4u + 3u - 1u);
  EXPECT_EQ(rig.core.standing(peer).credits_out, 8u);  // with the first frame
}

// ---- the receive window ----

Core::Config with_many_credits() {
  Core::Config config = rig::small_config();
  config.credits.max_credits = 64;
  return config;
}

// Frames of the peer until fewer receives than the limit are posted; nothing of them is taken.
void pass_the_limit(Rig& rig, LaneId lane) {
  while (rig.core.counters().receives_posted >= rig.core.counters().window / 2) {
    rig.arrive(lane, {});
  }
}

TEST(Window, GrowsOnTheLimitEventAndArmsAgain) {
  Rig rig(with_many_credits());
  const LaneId lane = rig.accept(other);
  pass_the_limit(rig, lane);
  rig.core.on_srq_limit(rig.out);
  EXPECT_EQ(rig.out.slab_buffers, 16u);
  rig.settle();
  EXPECT_EQ(rig.core.counters().window, 32u);
  EXPECT_TRUE(rig.out.arm);
  EXPECT_EQ(rig.out.srq_arm.limit, 16u);
}

TEST(Window, IgnoresAnEventThatIsOldNews) {
  Rig rig;
  rig.core.on_srq_limit(rig.out);
  EXPECT_EQ(rig.core.counters().window, 16u);
  EXPECT_TRUE(rig.out.arm);
  EXPECT_EQ(rig.out.srq_arm.limit, 8u);
}

TEST(Window, WhereItCannotGrowTheEventIsForTheRefill) {
  Rig rig(with_many_credits());
  const LaneId lane = rig.accept(other);
  while (rig.core.counters().window < 64) {
    pass_the_limit(rig, lane);
    rig.out.arm = false;
    rig.core.on_srq_limit(rig.out);
    rig.settle();
    rig.pump();  // the peer gets its larger share
    for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  }
  ASSERT_EQ(rig.core.counters().window, 64u);
  EXPECT_TRUE(rig.out.arm);
  EXPECT_EQ(rig.out.srq_arm.limit, 8u);
  while (rig.core.counters().receives_posted >= 8) rig.arrive(lane, {});
  rig.out.arm = false;
  rig.core.on_srq_limit(rig.out);
  EXPECT_FALSE(rig.out.arm);  // nothing is posted yet
  for (const Delivery& delivery : rig.take_deliveries()) rig.core.release(delivery.buffer);
  rig.pump();
  EXPECT_TRUE(rig.out.arm);
  EXPECT_EQ(rig.core.counters().window, 64u);
}

// Of two peers one falls silent with half of the window; the other one needs it.
struct OneOfTwoIsIdle : ::testing::Test {
  OneOfTwoIsIdle() {
    EXPECT_EQ(rig.core.standing(rig.core.peer_of(idle)).credits_out, 8u);
    rig.take_work();
  }
  static Core::Config config() {
    Core::Config config = rig::small_config();
    config.window = {.initial = 16, .max = 16};
    return config;
  }
  // Times that the idle one was asked while the other one sent so many frames; at most `most`.
  int recalls(int frames, int most) {
    int recalls = 0;
    for (; frames > 0 && recalls < most; --frames) {
      rig.arrive(busy, {.control_credits = std::exchange(control, std::uint8_t{0})});
      rig.core.release(rig.take_deliveries().at(0).buffer);
      rig.pump();
      rig.core.give_back_credits(rig.out);
      rig.settle();
      for (const WorkRequest& work : rig.take_work()) {
        if (rig.header_of(work).kind == FrameKind::recall) {
          EXPECT_EQ(work.lane, idle);
          EXPECT_EQ(rig.header_of(work).credits, 2);
          ++recalls;
        } else {
          ++control;
        }
        rig.complete(work);
      }
    }
    return recalls;
  }
  void idle_sends(const wire::FrameHeader& header) {
    const std::uint32_t busy_frames = std::exchange(rig.sequence, idle_frames++);
    rig.arrive(idle, header);
    rig.sequence = busy_frames;
  }

  Rig rig{config()};
  LaneId idle = rig.accept({1, 10});
  LaneId busy = rig.accept({1, 11});
  std::uint8_t control = 0;
  std::uint32_t idle_frames = 0;
};

TEST_F(OneOfTwoIsIdle, ItsCreditsAreAskedBack) { EXPECT_EQ(recalls(2'000, 1), 1); }

// It need not answer, and may be asked again once it has given back the control credit.
TEST_F(OneOfTwoIsIdle, UntilItHasGivenThemBack) {
  for (int times = 0; times < 3; ++times) {
    ASSERT_EQ(recalls(2'000, 1), 1) << times;
    idle_sends({.kind = FrameKind::credits, .control_credits = 1});
  }
  ASSERT_EQ(recalls(2'000, 1), 1);
  idle_sends({.kind = FrameKind::returned, .control_credits = 1, .credits = 6});
  EXPECT_EQ(recalls(2'000, 1), 0);
}

TEST(Window, RaisesTheEventItselfWhenItWasLost) {
  Rig rig(with_many_credits());
  const LaneId lane = rig.accept(other);
  pass_the_limit(rig, lane);
  rig.out.arm = false;
  rig.core.raise_lost_limit(rig.out);
  rig.settle();
  EXPECT_EQ(rig.core.counters().srq_limit_self_raised, 1u);
  EXPECT_TRUE(rig.out.arm);
  EXPECT_GE(rig.core.counters().receives_posted, rig.out.srq_arm.limit);
}

// Nobody takes the messages: W stops at `window_unattended`, however often the event comes, and
// the event is armed again once receives are posted.
TEST(Window, DoesNotGrowForeverForAnApplicationThatIsElsewhere) {
  Core::Config config = with_many_credits();
  config.window.max = 512;
  config.window_unattended = 32;
  Rig rig(config);
  const LaneId lane = rig.accept(other);
  pass_the_limit(rig, lane);
  rig.core.on_srq_limit(rig.out);
  rig.settle();
  rig.pump();
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  ASSERT_EQ(rig.core.counters().window, 32u);
  pass_the_limit(rig, lane);
  rig.out.arm = false;
  rig.core.on_srq_limit(rig.out);
  rig.core.on_srq_limit(rig.out);
  EXPECT_EQ(rig.core.counters().window, 32u);
  EXPECT_FALSE(rig.out.arm);  // the adapter might answer at once, and for ever

  // It is back, takes everything, and gets more: now the window is worth it.
  for (const Delivery& delivery : rig.take_deliveries()) rig.core.release(delivery.buffer);
  rig.pump();
  EXPECT_TRUE(rig.out.arm);
  EXPECT_EQ(rig.out.srq_arm.limit, 16u);
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  pass_the_limit(rig, lane);
  rig.core.on_srq_limit(rig.out);
  EXPECT_EQ(rig.core.counters().window, 64u);
}

// ---- memory given back ----

// After a burst: W at 64 and the peer with a large share.
struct AfterABurst : testing::Test {
  AfterABurst() {
    Core::Config config = with_many_credits();
    config.shrink_after = milliseconds(100);
    rig = std::make_unique<Rig>(config);
    lane = rig->accept(other);
    peer = rig->core.peer_of(lane);
    while (rig->core.counters().window < 64) {
      pass_the_limit(*rig, lane);
      rig->core.on_srq_limit(rig->out);
      rig->settle();
      take_all();
    }
    // The peer has its whole share, and we may send control frames.
    for (int i = 0; i < 3; ++i) {
      a_frame({.control_credits =
                   static_cast<std::uint8_t>(2 - rig->core.standing(peer).control_credits)});
    }
  }

  void take_all() {
    for (const Delivery& delivery : rig->take_deliveries()) rig->core.release(delivery.buffer);
    rig->pump();
    for (const WorkRequest& work : rig->out.work) rig->complete(work);
  }

  // One frame, taken; returns what we sent on that occasion.
  std::vector<WorkRequest> a_frame(wire::FrameHeader header = {.control_credits = 0}) {
    rig->arrive(lane, header);
    for (const Delivery& delivery : rig->take_deliveries()) rig->core.release(delivery.buffer);
    rig->pump();
    for (const WorkRequest& work : rig->out.work) rig->complete(work);
    return rig->take_work();
  }

  void wait(Duration time) {
    const Time end = rig->now + time;
    while (rig->now < end) {
      rig->now = rig->now + milliseconds(25);
      rig->core.on_timer(rig->now, rig->out);
      rig->settle();
    }
  }

  std::unique_ptr<Rig> rig;
  LaneId lane = LaneId::none;
  PeerId peer = PeerId::none;
};

TEST_F(AfterABurst, AHardlyUsedWindowIsHalvedAndItsMemoryGoes) {
  const std::uint64_t bytes = rig->core.counters().receive_bytes;
  wait(milliseconds(200));
  EXPECT_EQ(rig->core.counters().window, 32u);
  EXPECT_EQ(rig->core.counters().window_shrinks, 1u);
  EXPECT_EQ(rig->core.counters().receive_bytes, bytes);  // the adapter still has the buffers
  // The peer holds more than its new share, and is asked for it.
  const std::uint32_t held = rig->core.standing(peer).credits_out;
  const auto asked = rig->take_work();
  ASSERT_GE(asked.size(), 1u);
  EXPECT_EQ(rig->header_of(asked[0]).kind, FrameKind::recall);
  const std::uint16_t keep = rig->header_of(asked[0]).credits;
  ASSERT_LT(keep, held);
  for (const WorkRequest& work : asked) rig->complete(work);
  a_frame({.kind = FrameKind::returned,
           .control_credits = 1,
           .credits = static_cast<std::uint16_t>(held - keep)});
  EXPECT_EQ(rig->core.standing(peer).credits_out, keep);
  // Some traffic uses the buffers of the retired slab up.
  std::uint32_t frames = 0;
  while (rig->out.slabs_dropped == 0) {
    ASSERT_LT(frames++, 200u);
    a_frame();
    EXPECT_TRUE(rig->core.conserved());
  }
  EXPECT_EQ(rig->core.counters().receive_bytes, bytes / 2);
  EXPECT_LE(rig->core.counters().receives_posted, 32u);
}

TEST_F(AfterABurst, WhoLeftIsNotAskedForCredits) {
  rig->arrive(lane, {.kind = FrameKind::goodbye});
  wait(milliseconds(200));
  EXPECT_EQ(rig->core.counters().window_shrinks, 1u);
  EXPECT_TRUE(rig->take_work().empty());
}

TEST_F(AfterABurst, StepByStepDownToWhatThePeersNeed) {
  for (int i = 0; i < 40; ++i) {
    wait(milliseconds(200));
    // Frames go both ways, and carry the credits: many credit frames would ask for a larger window.
    for (int frames = 0; frames < 20 && rig->core.standing(peer).credits_out > 0; ++frames) {
      rig->send(peer);
      a_frame({.control_credits =
                   static_cast<std::uint8_t>(2 - rig->core.standing(peer).control_credits),
               .credits = 1});
    }
  }
  EXPECT_EQ(rig->core.counters().window, 16u);  // as it began
  EXPECT_EQ(rig->core.counters().receive_bytes, 16u * 1024u);
  EXPECT_FALSE(rig->core.next_deadline() <= rig->now + seconds(1));  // nothing left to look at
}

TEST_F(AfterABurst, AUsedWindowStays) {
  for (int i = 0; i < 20; ++i) {
    for (int frames = 0; frames < 26; ++frames) rig->arrive(lane, {});
    take_all();
    rig->take_work();
    rig->arrive(lane, {.kind = FrameKind::credits,
                       .control_credits = static_cast<std::uint8_t>(
                           2 - rig->core.standing(peer).control_credits)});
    take_all();
    wait(milliseconds(50));
  }
  EXPECT_EQ(rig->core.counters().window_shrinks, 0u);
}

TEST_F(AfterABurst, WhatRetiresIsBackAtOnceWhenNeeded) {
  const std::uint64_t bytes = rig->core.counters().receive_bytes;
  wait(milliseconds(200));
  ASSERT_EQ(rig->core.counters().window, 32u);
  for (int i = 0; i < 10; ++i) a_frame();
  rig->take_work();
  a_frame({.starved = true, .control_credits = 1});
  for (int i = 0; i < 16; ++i) a_frame();
  rig->arrive(lane, {.starved = true});
  rig->core.on_idle(rig->out);
  EXPECT_EQ(rig->core.counters().window, 64u);
  EXPECT_EQ(rig->out.slab_buffers, 0u);
  EXPECT_EQ(rig->core.counters().receive_bytes, bytes);
  EXPECT_TRUE(rig->core.conserved());
}

// The other side of a recall.
TEST(Recall, UnusedCreditsAreReturned) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.connect(peer, 20);
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  ASSERT_EQ(rig.core.standing(peer).credits, 19u);
  rig.arrive(lane, {.kind = FrameKind::recall, .credits = 5});
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).kind, FrameKind::returned);
  EXPECT_EQ(rig.header_of(work[0]).credits, 14);
  EXPECT_EQ(rig.core.standing(peer).credits, 5u);
  rig.complete(work[0]);
  rig.arrive(lane, {.kind = FrameKind::recall, .control_credits = 1, .credits = 5});
  EXPECT_TRUE(rig.take_work().empty());  // there is nothing to return
}

// It could ask for nothing any more, and we have nothing to send that brings them.
TEST(Credits, AllControlCreditsOfAPeerGoBackInAFrameOfTheirOwn) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.connect(peer);
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  rig.arrive(lane, {.kind = FrameKind::credits, .credits = 1});
  rig.core.give_back_credits(rig.out);
  EXPECT_TRUE(rig.take_work().empty());  // it has one left
  rig.arrive(lane, {.kind = FrameKind::credits, .credits = 1});
  rig.core.give_back_credits(rig.out);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).kind, FrameKind::credits);
  EXPECT_EQ(rig.header_of(work[0]).control_credits, 2);
}

TEST(Recall, TheLastControlCreditIsNotSpentOnIt) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.connect(peer, 20);
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  rig.arrive(lane, {.kind = FrameKind::recall, .credits = 9});
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  EXPECT_EQ(rig.core.standing(peer).control_credits, 1u);
  rig.arrive(lane, {.kind = FrameKind::recall, .credits = 5});
  EXPECT_TRUE(rig.take_work().empty());
  EXPECT_EQ(rig.core.standing(peer).credits, 9u);
}

TEST(Window, GrowsWhenAPeerStarvesAndWeAreIdle) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  for (int i = 0; i < 8; ++i) {
    rig.arrive(lane, {.starved = i == 7});
    rig.core.release(rig.take_deliveries().at(0).buffer);
  }
  rig.core.on_idle(rig.out);
  rig.settle();
  EXPECT_EQ(rig.core.counters().window, 32u);
  EXPECT_EQ(rig.core.counters().window_demands, 1u);
  rig.core.on_idle(rig.out);
  EXPECT_EQ(rig.core.counters().window, 32u);
}

// One that is itself too slow would only hide it.
TEST(Window, DoesNotGrowForAReceiverThatIsTooSlow) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  for (int i = 0; i < 8; ++i) rig.arrive(lane, {.starved = i == 7});
  rig.core.on_idle(rig.out);
  EXPECT_EQ(rig.core.counters().window, 16u);
  for (const Delivery& delivery : rig.take_deliveries()) rig.core.release(delivery.buffer);
  rig.core.on_idle(rig.out);
  EXPECT_EQ(rig.core.counters().window, 32u);
}

// So many frames of the peer, one at a time, each taken at once. `answered`: a frame goes the other
// way after each, and carries the credits.
void stream(Rig& rig, LaneId lane, PeerId peer, int frames, bool answered) {
  std::uint8_t control_frames = 0;
  for (int i = 0; i < frames; ++i) {
    rig.arrive(lane, {.control_credits = std::exchange(control_frames, 0), .credits = 1});
    rig.core.release(rig.take_deliveries().at(0).buffer);
    if (answered) rig.send(peer);
    rig.pump();
    for (const WorkRequest& work : rig.take_work()) {
      control_frames += rig.header_of(work).kind == FrameKind::credits;
      rig.complete(work);
    }
  }
}

// What the last step does has to be seen before the next one.
TEST(Window, GrowsOneStepAtATime) {
  Rig rig;
  const LaneId lane = rig.accept(other, 8);
  const PeerId peer = rig.core.peer_of(lane);
  const auto starve_once = [&] {
    rig.arrive(lane, {.starved = true, .credits = 1});
    rig.core.release(rig.take_deliveries().at(0).buffer);
    rig.core.on_idle(rig.out);
    rig.settle();
    for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  };
  stream(rig, lane, peer, 8, true);
  starve_once();
  EXPECT_EQ(rig.core.counters().window, 32u);
  stream(rig, lane, peer, 12, true);
  starve_once();
  EXPECT_EQ(rig.core.counters().window, 32u);
  stream(rig, lane, peer, 3, true);
  starve_once();
  EXPECT_EQ(rig.core.counters().window, 64u);
}

// A share of 12 costs one frame in six, 26 one in thirteen, and 54 one in 27.
TEST(Window, GrowsWhereCreditFramesAreManyAndNoFurther) {
  Core::Config config = with_many_credits();
  config.window.max = 256;
  Rig rig(config);
  const LaneId lane = rig.accept(other);
  const PeerId peer = rig.core.add_peer(other);
  ASSERT_EQ(rig.core.counters().window, 16u);
  stream(rig, lane, peer, 400, false);
  EXPECT_EQ(rig.core.counters().window, 64u);
  EXPECT_EQ(rig.core.counters().window_demands, 2u);
  EXPECT_TRUE(rig.core.conserved());
}

TEST(Window, DoesNotGrowForCreditsThatOurFramesCarry) {
  Rig rig(with_many_credits());
  const LaneId lane = rig.accept(other, 64);
  stream(rig, lane, rig.core.add_peer(other), 400, true);
  EXPECT_EQ(rig.core.counters().window, 16u);
}

// Shares that would stay as they are, and what is not available unattended.
TEST(Window, DoesNotGrowForSharesThatCannot) {
  Rig capped;  // at most 8 credits
  const LaneId lane = capped.accept(other);
  stream(capped, lane, capped.core.add_peer(other), 400, false);
  EXPECT_EQ(capped.core.counters().window, 16u);

  Core::Config config = with_many_credits();
  config.window_unattended = 31;
  Rig unattended(config);
  const LaneId other_lane = unattended.accept(other);
  stream(unattended, other_lane, unattended.core.add_peer(other), 400, false);
  EXPECT_EQ(unattended.core.counters().window, 16u);
}

// The limit event does not bring it beyond `window_unasked`, and is not asked for there.
TEST(Window, BeyondWhatIsUnaskedGrowsForAStarvingPeerOnly) {
  Core::Config config = with_many_credits();
  config.window_unasked = 16;
  Rig rig(config);
  const LaneId lane = rig.accept(other);
  ASSERT_EQ(rig.core.counters().window, 16u);
  EXPECT_FALSE(rig.out.arm);
  pass_the_limit(rig, lane);
  rig.core.on_srq_limit(rig.out);
  rig.core.raise_lost_limit(rig.out);
  rig.settle();
  EXPECT_EQ(rig.core.counters().window, 16u);
  for (const Delivery& delivery : rig.take_deliveries()) rig.core.release(delivery.buffer);
  rig.arrive(lane, {.starved = true});
  rig.core.release(rig.take_deliveries().at(0).buffer);
  rig.core.on_idle(rig.out);
  rig.settle();
  EXPECT_EQ(rig.core.counters().window, 32u);
  EXPECT_EQ(rig.core.counters().window_demands, 1u);
}

// Nor does a peer without credits, where this process answers each of its frames.
TEST(Window, BeyondWhatIsUnaskedGrowsForABurstOnly) {
  for (const bool answered : {true, false}) {
    Core::Config config = with_many_credits();
    config.window_unasked = 16;
    config.window_unattended = 16;
    Rig rig(config);
    const LaneId lane = rig.accept(other, 8);
    stream(rig, lane, rig.core.peer_of(lane), 16, answered);
    rig.arrive(lane, {.starved = true, .credits = 1});
    rig.core.release(rig.take_deliveries().at(0).buffer);
    rig.core.on_idle(rig.out);
    rig.settle();
    EXPECT_EQ(rig.core.counters().window, answered ? 16u : 32u);
  }
}

TEST(Window, StaysWhereMemoryEnds) {
  Rig rig(with_many_credits());
  const LaneId lane = rig.accept(other);
  pass_the_limit(rig, lane);
  rig.slab_fails = true;
  rig.core.on_srq_limit(rig.out);
  rig.settle();
  EXPECT_EQ(rig.core.counters().window, 16u);
  EXPECT_EQ(rig.core.counters().slab_failures, 1u);
  rig.slab_fails = false;
  rig.core.on_srq_limit(rig.out);
  EXPECT_EQ(rig.out.slab_buffers, 0u);
}

TEST(Window, WhereMemoryEndsCreditsEndToo) {
  Rig rig(with_many_credits());
  wire::Hello hello = rig.hello(other);
  hello.control_credits = 0;  // no credits are sent before memory is asked for
  rig.core.on_request(rig.now, RequestId{1}, hello, rig.out);
  rig.settle();
  const LaneId lane = rig.take_connects().at(0).lane;
  rig.core.on_established(rig.now, lane, rig.out);
  pass_the_limit(rig, lane);
  rig.slab_fails = true;
  rig.core.on_srq_limit(rig.out);
  rig.settle();
  ASSERT_EQ(rig.core.counters().slab_failures, 1u);
  rig.arrive(lane, {.kind = FrameKind::credits, .control_credits = 1});
  rig.pump();
  // Each has a buffer that is posted, and so have two control frames.
  EXPECT_LE(rig.core.standing(rig.core.peer_of(lane)).credits_out + 2, rig.posted.size());
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

// It may be made larger than W_max for them, as far as the SRQ has room.
TEST(Window, IsMadeForAllPeersThatAreExpected) {
  Core::Config config = rig::small_config();
  config.window.most = 1000;
  Core core(config);
  core.expect_peers(10);
  EXPECT_EQ(core.window_max(), 46u + 64);  // four each and the slack, and W_max
  core.expect_peers(100);
  EXPECT_GE(core.window_max(), 400u);
  EXPECT_GE(core.settle_receive_queue(), core.window_max());
  core.expect_peers(1000);
  EXPECT_EQ(core.window_max(), core.settle_receive_queue());
}

// The first peer took every credit there was; the second finds a window with room for it.
TEST(Window, MakesRoomForEveryPeerThatJoins) {
  Core::Config config = rig::small_config();
  config.window.most = 110;
  Rig rig(config);
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
  EXPECT_EQ(rig.core.counters().window, 110u);
  EXPECT_GT(rig.core.counters().credits_overcommitted, 0u);  // 50 peers do not fit; counted
}

// ---- peers that break the rules ----

void expect_bad(FrameFault fault, const std::function<void(Rig&, LaneId)>& misdeed) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  misdeed(rig, lane);
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].reason, FailReason::bad_frame);
  EXPECT_STREQ(to_text(failures[0].frame.fault), to_text(fault));
  EXPECT_EQ(rig.core.state(failures[0].peer), PeerState::failed);
  for (const Delivery& delivery : rig.take_deliveries()) rig.core.release(delivery.buffer);
  rig.pump();
  EXPECT_TRUE(rig.core.conserved());
  EXPECT_EQ(rig.core.counters().credits_out, 0u);
}

TEST(BadPeer, SendsJunk) {
  expect_bad(FrameFault::layout, [](Rig& rig, LaneId lane) {
    rig.arrive_bytes(lane, std::vector<std::byte>(40, std::byte{0xff}));
  });
}

TEST(BadPeer, SkipsAFrame) {
  expect_bad(FrameFault::sequence, [](Rig& rig, LaneId lane) {
    rig.sequence = 1;
    rig.arrive(lane, {});
  });
}

TEST(BadPeer, SendsAFrameOfLongAgo) {
  expect_bad(FrameFault::sequence, [](Rig& rig, LaneId lane) {
    rig.arrive(lane, {});
    rig.sequence = 0u - rig.core.config().queue.depth;
    rig.arrive(lane, {});
  });
}

// What is wrong goes into the report of the bug: the number due, the length, the first bytes.
TEST(BadPeer, IsDescribed) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  rig.arrive(lane, {});
  rig.sequence = 7;
  rig.arrive(lane, {.kind = FrameKind::credits, .credits = 3});
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  const BadFrame& frame = failures[0].frame;
  EXPECT_EQ(frame.due, 1u);
  EXPECT_EQ(frame.size_bytes, wire::frame_header_bytes);
  EXPECT_EQ(wire::get_frame_header(frame.begin.data()).sequence, 7u);
  EXPECT_EQ(wire::get_frame_header(frame.begin.data()).credits, 3u);
}

TEST(BadPeer, SendsMoreThanABufferHolds) {
  expect_bad(FrameFault::length, [](Rig& rig, LaneId lane) {
    // A frame like any other, if the buffer behind this one belonged to it.
    const auto largest = std::min_element(
        rig.posted.begin(), rig.posted.end(),
        [](const ReceivePost& a, const ReceivePost& b) { return a.address < b.address; });
    std::swap(*largest, rig.posted.front());
    std::vector<std::byte> frame(1032);
    wire::put(frame.data(), wire::FrameHeader{});
    wire::put(&frame[8], wire::MessageHeader{1032 - 16, 1});
    rig.arrive_bytes(lane, frame);
  });
}

TEST(BadPeer, OverrunsItsCredits) {
  expect_bad(FrameFault::eager_credits, [](Rig& rig, LaneId lane) {
    for (std::uint32_t i = 0; i <= rig.granted; ++i) rig.arrive(lane, {});
  });
}

TEST(BadPeer, SendsTooManyControlFrames) {
  expect_bad(FrameFault::control_credits, [](Rig& rig, LaneId lane) {
    for (int i = 0; i < 3; ++i) rig.arrive(lane, {.kind = FrameKind::credits});
  });
}

TEST(BadPeer, ReturnsCreditsThatItNeverHad) {
  expect_bad(FrameFault::returned_credits, [](Rig& rig, LaneId lane) {
    rig.arrive(lane, {.kind = FrameKind::returned,
                      .credits = static_cast<std::uint16_t>(rig.granted + 1)});
  });
}

TEST(BadPeer, ReturnsControlCreditsThatItNeverHad) {
  expect_bad(FrameFault::control_credits,
             [](Rig& rig, LaneId lane) { rig.arrive(lane, {.control_credits = 1}); });
  expect_bad(FrameFault::control_credits,
             [](Rig& rig, LaneId lane) { rig.arrive(lane, {.control_credits = 254}); });
}

TEST(BadPeer, SendsAfterItsGoodbye) {
  expect_bad(FrameFault::after_goodbye, [](Rig& rig, LaneId lane) {
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

// Soft-RoCE may deliver a SEND that it repeats once more, or empty.
TEST(Receive, AFrameThatCameBeforeIsLeftOut) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  rig.arrive(lane, {});
  rig.arrive(lane, {.kind = FrameKind::credits});
  for (const std::uint32_t again : {1u, 0u}) {
    rig.sequence = again;
    rig.arrive(lane, {.kind = FrameKind::credits});
  }
  rig.arrive_bytes(lane, {});
  rig.sequence = 2;
  rig.arrive(lane, {.kind = FrameKind::credits});  // a third would be one too many
  rig.arrive(lane, {});
  EXPECT_TRUE(rig.take_failures().empty());
  EXPECT_EQ(rig.core.counters().frames_twice, 3u);
  EXPECT_EQ(rig.core.counters().receives_held, 2u);
  const auto deliveries = rig.take_deliveries();
  ASSERT_EQ(deliveries.size(), 2u);
  for (const Delivery& delivery : deliveries) rig.core.release(delivery.buffer);
  rig.pump();
  EXPECT_TRUE(rig.core.conserved());
}

// No other adapter does so: there it is a fault, and the peer is given up by name.
TEST(Receive, ElsewhereAFrameThatCameBeforeIsAFault) {
  for (const bool empty : {false, true}) {
    Core::Config config = rig::small_config();
    config.frames_may_repeat = false;
    Rig rig(config);
    const LaneId lane = rig.accept(other);
    rig.arrive(lane, {});
    rig.sequence = 0;
    if (empty) {
      rig.arrive_bytes(lane, {});
    } else {
      rig.arrive(lane, {});
    }
    const auto failures = rig.take_failures();
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].reason, FailReason::bad_frame);
    EXPECT_EQ(failures[0].frame.fault, FrameFault::twice);
    EXPECT_EQ(rig.core.counters().frames_twice, 0u);
    for (const Delivery& delivery : rig.take_deliveries()) rig.core.release(delivery.buffer);
    rig.pump();
    EXPECT_TRUE(rig.core.conserved());
  }
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
