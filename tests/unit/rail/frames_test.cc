// What a peer's layer above does with the news of its rails.
#include "transport/rail/frames.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "transport/rail/transfers.h"

namespace weir {
namespace {

struct Frame {
  int number;
};

// A process with three rails. Each rail takes what comes, unless they are `full`.
struct ThreeRails {
  std::vector<std::string> done;
  std::vector<Frame> lacked{{1}, {2}};
  bool full = false;

  void note(const std::string& what, std::size_t rail) {
    done.push_back(what + " " + std::to_string(rail));
  }
  std::size_t count() const { return 3; }
  std::optional<std::uint32_t> hold(std::size_t rail, bool) {
    note("hold", rail);
    return ended_at ? std::nullopt : std::optional(7u);
  }
  std::optional<std::uint32_t> received_before_end(std::size_t) { return ended_at; }
  std::optional<std::vector<Frame*>> give_away(std::size_t, std::uint32_t) {
    std::vector<Frame*> frames;
    for (Frame& frame : lacked) frames.push_back(&frame);
    return frames;
  }
  std::vector<Frame*> take_unsent(std::size_t rail) {
    note("take", rail);
    return {&lacked[0]};
  }
  void let_go(std::size_t rail) { note("let go", rail); }
  bool send(std::size_t, const HandoverMessage& message) {
    sent = message;
    return true;
  }
  Status carry(std::size_t over, const Frame& frame) {
    if (full) return Status::elsewhere;
    note("frame " + std::to_string(frame.number) + " over", over);
    return Status::ok;
  }
  void discard(std::size_t, Frame*) {}
  void connect(std::size_t rail) { note("connect", rail); }
  void withdraw(std::size_t rail) { note("withdraw", rail); }
  void on_way_lost(std::size_t rail, FailReason) { note("lost", rail); }
  void on_given_away(std::size_t, std::size_t frames, std::size_t lost) {
    given += frames;
    unsent += lost;
  }

  std::optional<std::uint32_t> ended_at;
  HandoverMessage sent{};
  std::size_t given = 0;
  std::size_t unsent = 0;
};

struct RailFramesTest : ::testing::Test {
  using Kind = LinkNews::Kind;
  using Done = std::vector<std::string>;

  void hear(std::size_t rail, Kind kind) {
    rails.done.clear();
    frames.on_news(rail, {.kind = kind});
  }
  bool outlives(std::size_t rail, FailReason reason, bool lost_work, bool in_doubt = false) {
    return frames.outlives(rail, reason, lost_work, in_doubt);
  }
  void carry_a_frame_over(std::size_t rail) {
    links.send(3, 0,
               [&](std::size_t over) { return over == rail ? Status::ok : Status::elsewhere; });
  }

  Links links;
  ThreeRails rails;
  RailFrames<ThreeRails> frames{links, rails};
};

TEST_F(RailFramesTest, WhatARailLeavesBehindGoesOverAnotherOne) {
  hear(0, Kind::up);
  hear(1, Kind::up);
  hear(0, Kind::down);
  EXPECT_EQ(rails.done, Done({"hold 0", "connect 1", "connect 2", "withdraw 0"}));
  rails.done.clear();
  frames.on_news(1, {.kind = Kind::message,
                     .message = {HandoverMessage::Kind::answer, 0, 0, rails.sent.exchange}});
  EXPECT_EQ(rails.done, Done({"frame 1 over 1", "frame 2 over 1", "withdraw 0", "let go 0"}));
  EXPECT_EQ(rails.given, 2u);
  EXPECT_EQ(rails.unsent, 0u);
}

// It needs no confirmation, because nothing arrives there any more.
TEST_F(RailFramesTest, APeerWhoseSessionIsOverSaysWhatHasArrived) {
  hear(0, Kind::up);
  hear(1, Kind::up);
  hear(0, Kind::down);
  rails.done.clear();
  frames.on_news(1, {.kind = Kind::message,
                     .message = {HandoverMessage::Kind::over, 0, 0, rails.sent.exchange}});
  EXPECT_EQ(rails.done, Done({"frame 1 over 1", "frame 2 over 1", "withdraw 0", "let go 0"}));
  EXPECT_EQ(rails.sent.kind, HandoverMessage::Kind::ask);
}

TEST_F(RailFramesTest, WhoseSessionIsOverSaysWhatHadArrived) {
  hear(1, Kind::up);
  rails.ended_at = 12;
  const HandoverMessage ask{HandoverMessage::Kind::ask, 0, 3, 5};
  frames.on_news(1, {.kind = Kind::message, .message = ask});
  EXPECT_EQ(rails.sent.kind, HandoverMessage::Kind::over);
  EXPECT_EQ(rails.sent.received, 12u);
  EXPECT_EQ(rails.sent.exchange, 5u);
  frames.on_news(1, {.kind = Kind::message, .message = {HandoverMessage::Kind::over, 0, 9, 5}});
  EXPECT_EQ(rails.given, 0u) << "we have not asked";
}

// The rail may be gone, and no session says what to do with them.
TEST_F(RailFramesTest, WhatWaitsForAConnectionThatIsNotMadeGoesOverAnotherRail) {
  hear(1, Kind::out);
  EXPECT_EQ(rails.done, Done{}) << "there is no other";
  hear(2, Kind::up);
  hear(1, Kind::out);
  EXPECT_EQ(rails.done, Done({"withdraw 1", "take 1", "frame 1 over 2"}));
  EXPECT_EQ(rails.unsent, 0u);
  hear(0, Kind::out);
  EXPECT_EQ(rails.done, Done({"take 0", "frame 1 over 2"}));
}

TEST_F(RailFramesTest, FramesThatNoOtherRailTakesAreTold) {
  hear(0, Kind::up);
  hear(1, Kind::up);
  hear(0, Kind::down);
  rails.full = true;
  frames.on_news(1, {.kind = Kind::message,
                     .message = {HandoverMessage::Kind::answer, 0, 0, rails.sent.exchange}});
  EXPECT_EQ(rails.unsent, 2u);
}

// The others may have parted, and somebody has to say what has arrived.
TEST_F(RailFramesTest, WithoutAnyConnectionTheOtherRailsAreAsked) {
  hear(1, Kind::up);
  hear(1, Kind::down);
  EXPECT_EQ(rails.done, Done({"lost 1", "connect 0", "connect 2"}));
  hear(1, Kind::out);
  EXPECT_EQ(rails.done, Done({"connect 0", "connect 2"})) << "they may have parted again";
  hear(0, Kind::up);
  EXPECT_EQ(rails.done.front(), "hold 1");
  hear(1, Kind::out);
  EXPECT_EQ(rails.done, Done({"withdraw 1", "take 1", "frame 1 over 0"}));
}

TEST_F(RailFramesTest, TransfersWaitForARailWithAConnection) {
  hear(1, Kind::up);
  hear(1, Kind::down);
  EXPECT_EQ(rails.done, Done({"lost 1", "connect 0", "connect 2"}));
  hear(2, Kind::up);
  EXPECT_EQ(rails.done.back(), "withdraw 1");
}

TEST_F(RailFramesTest, APeerIsLostWithWhatARailHasLost) {
  hear(0, Kind::up);
  hear(1, Kind::up);
  EXPECT_TRUE(outlives(0, FailReason::send_failed, false));
  EXPECT_TRUE(outlives(0, FailReason::port_down, false));
  EXPECT_FALSE(outlives(0, FailReason::send_failed, true));
  EXPECT_FALSE(outlives(0, FailReason::bad_frame, false)) << "that is no fault of the way";
  EXPECT_TRUE(outlives(1, FailReason::send_failed, true)) << "its parts go over another rail";
  EXPECT_FALSE(outlives(1, FailReason::send_failed, true, true)) << "a put may still arrive";
  hear(0, Kind::down);
  carry_a_frame_over(1);
  EXPECT_FALSE(outlives(1, FailReason::send_failed, true)) << "it carried frames";
  EXPECT_TRUE(outlives(1, FailReason::send_failed, true)) << "and none since";
}

TEST_F(RailFramesTest, ARailThatIsAwayForAMomentIsARail) {
  hear(0, Kind::up);
  hear(1, Kind::up);
  hear(0, Kind::down);
  hear(1, Kind::down);
  hear(0, Kind::over);
  EXPECT_TRUE(outlives(0, FailReason::send_failed, false));
  hear(1, Kind::over);
  EXPECT_FALSE(outlives(1, FailReason::send_failed, false));
}

TEST_F(RailFramesTest, ARailWhoseFramesMovedTakesNone) {
  hear(0, Kind::up);
  hear(1, Kind::up);
  hear(0, Kind::down);
  frames.on_news(1, {.kind = Kind::message,
                     .message = {HandoverMessage::Kind::answer, 0, 0, rails.sent.exchange}});
  hear(1, Kind::down);
  hear(1, Kind::over);
  EXPECT_FALSE(links.others_go_on(1));
  hear(0, Kind::up);
  hear(0, Kind::down);
  EXPECT_TRUE(links.others_go_on(1));
}

TEST_F(RailFramesTest, TheLastRailIsNotOutlived) {
  hear(0, Kind::up);
  hear(0, Kind::over);
  EXPECT_FALSE(outlives(0, FailReason::send_failed, false));
  EXPECT_FALSE(outlives(1, FailReason::send_failed, false));
}

TEST_F(RailFramesTest, APartThatARailLostGoesToOneThatWorks) {
  hear(1, Kind::up);
  hear(2, Kind::up);
  hear(0, Kind::down);
  RailTransfers transfers;
  RailTransfers::Ways ways;
  RailKeys keys{};
  keys[1].rkey = keys[2].rkey = 1;
  const TransferRequest request{.length_bytes = 1000};
  const auto parts = transfers.begin({}, request, {false, true, false, false}, ways, {}, keys, 0);
  ASSERT_NE(parts[1], nullptr);
  hear(1, Kind::down);
  using Next = RailTransfers::Next::Kind;
  EXPECT_EQ(transfers.end_of_step({}, *parts[1], false, true, links, ways).kind, Next::again);
  EXPECT_EQ(parts[1]->over(), 2u);
  hear(2, Kind::down);
  EXPECT_EQ(transfers.end_of_step({}, *parts[1], false, true, links, ways).kind, Next::again);
  EXPECT_EQ(parts[1]->over(), 0u) << "with none, the first gets it when it is back";
  hear(0, Kind::up);
  const auto last = transfers.end_of_step({}, *parts[1], true, true, links, ways);
  EXPECT_EQ(last.kind, Next::over);
  EXPECT_TRUE(last.ok);
  EXPECT_EQ(transfers.parts_out(), 0u);
}

}  // namespace
}  // namespace weir
