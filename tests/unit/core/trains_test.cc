// Messages of several frames: when one may go, and whether the peer may send some.
#include <gtest/gtest.h>

#include "tests/unit/core/rig.h"
#include "transport/wire/car.h"

namespace weir {
namespace {

using rig::other;
using rig::Rig;
using wire::FrameKind;

class Trains : public testing::Test {
 protected:
  bool send(std::uint32_t cars) {
    if (rig.core.admit_train(peer, cars) != Status::ok) return false;
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

TEST_F(Trains, NeedACreditForEachCarAndGoInOneChain) {
  sent();
  EXPECT_FALSE(send(6));
  EXPECT_TRUE(sent().empty());
  EXPECT_TRUE(send(5));
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 5u);
  for (const wire::FrameHeader& frame : frames) EXPECT_EQ(frame.kind, FrameKind::messages);
  EXPECT_EQ(rig.core.standing(peer).credits, 0u);
  EXPECT_EQ(rig.core.counters().trains_sent, 1u);
  EXPECT_EQ(rig.core.counters().trains_refused, 1u);
}

TEST_F(Trains, TheNextFrameSaysThatCreditsLacked) {
  sent();
  EXPECT_FALSE(send(6));
  rig.send(peer);
  rig.send(peer);
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_TRUE(frames[0].starved);
  EXPECT_FALSE(frames[1].starved);
}

TEST_F(Trains, OvertakeNothing) {
  for (int i = 0; i < 3; ++i) rig.send(peer, 100);  // more than a burst: the last one waits
  ASSERT_GT(rig.core.standing(peer).pending_frames, 0u);
  EXPECT_FALSE(send(2));
  rig.pump();
  EXPECT_TRUE(send(2));
}

TEST_F(Trains, ThePeerMayWantNone) {
  hear(false);
  EXPECT_FALSE(send(2));
  hear(true);
  EXPECT_TRUE(send(2));
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
