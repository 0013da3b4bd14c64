// Messages of several frames: when they go, and whether the peer may send some.
#include <gtest/gtest.h>

#include "tests/unit/core/rig.h"
#include "transport/core/sender.h"
#include "transport/wire/car.h"

namespace weir {
namespace {

using rig::other;
using rig::Rig;
using wire::FrameKind;

class Trains : public testing::Test {
 protected:
  bool send(std::uint32_t cars) {
    if (rig.core.admit_train(peer) != Status::ok) return false;
    for (std::uint32_t i = 1; i <= cars; ++i) {
      rig.core.send_car(rig.now, peer, rig.slot(), 900, i == cars, rig.out);
    }
    return true;
  }
  void hear(bool takes) {
    rig.arrive(lane, {.kind = FrameKind::trains, .credits = static_cast<std::uint16_t>(takes)});
  }
  std::vector<wire::FrameHeader> sent() {
    std::vector<wire::FrameHeader> headers;
    for (const WorkRequest& work : rig.take_work()) headers.push_back(rig.header_of(work));
    return headers;
  }

  static Core::Config resuming() {
    Core::Config config = rig::small_config();
    config.resumes = true;
    return config;
  }

  Rig rig{resuming()};
  PeerId peer = rig.core.add_peer(other);
  LaneId lane = rig.connect(peer, 6);  // its message took one
};

TEST_F(Trains, GoInOneChain) {
  sent();
  EXPECT_TRUE(send(5));
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 5u);
  for (const wire::FrameHeader& frame : frames) EXPECT_EQ(frame.kind, FrameKind::messages);
  EXPECT_EQ(rig.core.standing(peer).credits, 0u);
  EXPECT_EQ(rig.core.counters().trains_sent, 1u);
  EXPECT_EQ(rig.core.counters().trains_waited, 0u);
}

TEST_F(Trains, TheRestGoesAsCreditsCome) {
  sent();
  EXPECT_TRUE(send(8));
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 5u);
  EXPECT_TRUE(frames.back().starved);
  EXPECT_EQ(rig.core.standing(peer).pending_frames, 3u);
  rig.arrive(lane, {.kind = FrameKind::credits, .credits = 2});
  EXPECT_EQ(sent().size(), 2u);
  rig.arrive(lane, {.kind = FrameKind::credits, .credits = 2});
  EXPECT_EQ(sent().size(), 1u);
  EXPECT_EQ(rig.core.counters().trains_waited, 1u);
}

// A receiver that computes gives no credits until it is woken.
TEST_F(Trains, TheLastCarAndThatWithTheLastCreditWake) {
  peer = rig.core.add_peer({other.job, other.rank + 1});
  rig.send(peer);
  const ConnectAction request = rig.take_connects().back();
  wire::Hello hello = rig.answer(request, 6);
  hello.wakes = wire::Wakes::answers;
  rig.core.on_answer(rig.now, request.lane, hello, rig.out);
  rig.take_work();
  const auto wakes = [&](std::uint32_t cars) {
    EXPECT_TRUE(send(cars));
    std::vector<bool> which;
    for (const WorkRequest& work : rig.take_work()) which.push_back(work.solicited);
    return which;
  };
  EXPECT_EQ(wakes(3), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(wakes(7), (std::vector<bool>{false, true}));
}

TEST_F(Trains, FewWaitForOnePeerAndForAll) {
  sent();
  EXPECT_TRUE(send(5 + Sender::most_cars_waiting - 1));
  EXPECT_TRUE(rig.core.wants_trains());
  EXPECT_TRUE(send(8));
  EXPECT_FALSE(rig.core.wants_trains());
  EXPECT_FALSE(send(1));
  EXPECT_EQ(rig.core.counters().trains_refused, 1u);
  peer = rig.core.add_peer({other.job, other.rank + 1});
  EXPECT_TRUE(send(1)) << "it was begun a moment before";
}

TEST_F(Trains, AskForAConnection) {
  peer = rig.core.add_peer({other.job, other.rank + 1});
  EXPECT_TRUE(send(2));
  const auto requests = rig.take_connects();
  ASSERT_EQ(requests.size(), 1u);
  rig.take_work();
  rig.core.on_answer(rig.now, requests[0].lane, rig.answer(requests[0], 6), rig.out);
  EXPECT_EQ(sent().size(), 2u);
}

TEST_F(Trains, OvertakeNothing) {
  for (int i = 0; i < 3; ++i) rig.send(peer, 100);  // more than a burst: the last one waits
  ASSERT_GT(rig.core.standing(peer).pending_frames, 0u);
  rig.take_work();
  EXPECT_TRUE(send(2));
  std::vector<std::uint8_t> tags;
  for (const WorkRequest& work : rig.take_work()) {
    const auto* const frame = reinterpret_cast<const std::byte*>(work.address);
    tags.push_back(wire::get_message_header(frame + wire::frame_header_bytes).tag);
  }
  ASSERT_EQ(tags.size(), 3u);
  EXPECT_NE(tags[0], wire::car_tag);
  EXPECT_EQ(tags[1], wire::car_tag);
}

TEST_F(Trains, ThePeerMayWantNone) {
  hear(false);
  hear(false);
  EXPECT_FALSE(rig.core.wants_trains());
  hear(true);
  EXPECT_TRUE(rig.core.wants_trains());
}

TEST_F(Trains, WhoIsGoneWantsNothing) {
  sent();
  hear(false);
  EXPECT_TRUE(send(5 + Sender::most_cars_waiting));
  rig.sequence += 7;  // out of turn
  rig.arrive(lane, {});
  rig.take_connects();
  EXPECT_TRUE(rig.core.wants_trains());
}

// It costs a control credit, and never the last one; a new connection begins with yes.
TEST_F(Trains, AreRefusedOnceAndOnTheNextConnectionAgain) {
  sent();
  const auto told = [&] {
    std::vector<int> what;
    for (const wire::FrameHeader& frame : sent()) {
      if (frame.kind == FrameKind::trains) what.push_back(frame.credits);
    }
    return what;
  };
  rig.core.let_train(peer, false, rig.out);
  rig.core.let_train(peer, false, rig.out);
  EXPECT_EQ(told(), std::vector<int>{0});
  rig.core.let_train(peer, true, rig.out);
  EXPECT_EQ(told(), std::vector<int>{}) << "one control credit is left";
  rig.core.let_train(peer, false, rig.out);
  rig.arrive(lane, {.control_credits = 1});
  rig.pump();
  EXPECT_EQ(told(), std::vector<int>{0}) << "what it was in the end";

  rig.send(peer);
  const WorkRequest last = rig.take_work().back();
  rig.complete(last, CompletionStatus::retry_exc_err);
  const ConnectAction request = rig.take_connects().back();
  wire::Hello hello = rig.answer(request, 6);
  hello.resumes = true;
  hello.received = rig.header_of(last).sequence + 1;
  rig.core.on_answer(rig.now, request.lane, hello, rig.out);
  rig.pump();
  EXPECT_EQ(told(), std::vector<int>{0});
}

}  // namespace
}  // namespace weir
