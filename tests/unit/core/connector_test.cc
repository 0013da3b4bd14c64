// Connections: who asks, who wins when both do, and how they end.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/core/rooms.h"

namespace weir {
namespace {

using rig::lesser;
using rig::other;
using rig::Rig;
using Kind = ConnectAction::Kind;

TEST(Connect, AnswersARequest) {
  Rig rig;
  rig.core.on_request(rig.now, RequestId{4}, rig.hello(other), rig.out);
  rig.settle();
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.size(), 1u);
  EXPECT_EQ(connects[0].kind, Kind::accept);
  EXPECT_EQ(connects[0].request, RequestId{4});
  EXPECT_EQ(connects[0].hello.from, rig::self);
  EXPECT_EQ(connects[0].hello.to, other);
  EXPECT_EQ(rig.core.connecting_count(), 1u);
  rig.core.on_established(rig.now, connects[0].lane, rig.out);
  EXPECT_EQ(rig.core.connecting_count(), 0u);
  EXPECT_EQ(rig.core.counters().connections_accepted, 1u);
}

// There are slots for no more control frames than both sides have credits for.
TEST(Connect, TakesNoMoreControlCreditsThanThereAre) {
  Rig rig;
  wire::Hello hello = rig.hello(other);
  hello.control_credits = 200;
  rig.core.on_request(rig.now, RequestId{4}, hello, rig.out);
  rig.settle();
  const LaneId lane = rig.take_connects().at(0).lane;
  rig.core.on_established(rig.now, lane, rig.out);
  EXPECT_EQ(rig.core.standing(rig.core.peer_of(lane)).control_credits, 2u);

  const PeerId peer = rig.core.add_peer(lesser);
  rig.send(peer);
  const auto connects = rig.take_connects();
  hello = rig.answer(connects.at(0));
  hello.control_credits = 200;
  rig.core.on_answer(rig.now, connects[0].lane, hello, rig.out);
  EXPECT_EQ(rig.core.standing(peer).control_credits, 2u);
}

TEST(Connect, ProcessesOfTwoJobsMayHaveOneRank) {
  Rig rig;
  const PeerId peer = rig.core.add_peer({1, 9});
  const PeerId spawned = rig.core.add_peer({2, 9});
  EXPECT_NE(peer, spawned);
  EXPECT_EQ(rig.core.name(spawned), (PeerName{2, 9}));
  EXPECT_EQ(rig.core.add_peer({1, 9}), peer);
}

TEST(Connect, RefusesWhoDoesNotFit) {
  const auto reason_of = [](wire::Hello hello) {
    Rig rig;
    rig.core.on_request(rig.now, RequestId{1}, hello, rig.out);
    const auto connects = rig.take_connects();
    EXPECT_EQ(connects.size(), 1u);
    EXPECT_EQ(connects[0].kind, Kind::reject);
    EXPECT_EQ(connects[0].request, RequestId{1});
    return connects[0].reason;
  };
  Rig rig;
  wire::Hello hello = rig.hello(other);
  hello.to = {1, 77};
  EXPECT_EQ(reason_of(hello), wire::Reject::stranger);
  hello = rig.hello(rig::self);
  EXPECT_EQ(reason_of(hello), wire::Reject::stranger);
  EXPECT_EQ(reason_of(wire::Hello{}), wire::Reject::stranger);
  hello = rig.hello(other);
  hello.key[0] ^= 1;
  EXPECT_EQ(reason_of(hello), wire::Reject::stranger);
  hello = rig.hello(other);
  hello.protocol_min = hello.protocol_max = wire::protocol_max + 1;
  EXPECT_EQ(reason_of(hello), wire::Reject::version);
  hello = rig.hello(other);
  hello.buffer_bytes *= 2;
  EXPECT_EQ(reason_of(hello), wire::Reject::buffer);
}

TEST(Connect, GivesUpOnAnAnswerThatDoesNotFit) {
  const auto reason_of = [](auto change) {
    Rig rig;
    rig.send(rig.core.add_peer(other));
    const auto request = rig.take_connects();
    wire::Hello hello = rig.answer(request.at(0));
    change(hello);
    rig.core.on_answer(rig.now, request[0].lane, hello, rig.out);
    const auto failures = rig.take_failures();
    EXPECT_EQ(failures.size(), 1u);
    EXPECT_EQ(rig.take_connects().at(0).kind, Kind::drop);
    EXPECT_EQ(rig.take_retired().size(), 1u);
    return failures.at(0).reason;
  };
  EXPECT_EQ(reason_of([](wire::Hello& hello) { hello.from = lesser; }),
            FailReason::rejected_stranger);
  EXPECT_EQ(reason_of([](wire::Hello& hello) { hello.key[15] ^= 1; }),
            FailReason::rejected_stranger);
  EXPECT_EQ(reason_of([](wire::Hello& hello) { --hello.attempt; }), FailReason::rejected_stranger);
  EXPECT_EQ(reason_of([](wire::Hello& hello) { hello.buffer_bytes = 1; }),
            FailReason::rejected_buffer);
  EXPECT_EQ(reason_of([](wire::Hello& hello) { hello.protocol_min = hello.protocol_max = 9; }),
            FailReason::rejected_version);
}

TEST(Crossing, TheLowerNameRefusesAndWaitsForItsAnswer) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.send(peer);
  const ConnectAction request = rig.take_connects().at(0);
  rig.core.on_request(rig.now, RequestId{1}, rig.hello(other), rig.out);
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.size(), 1u);
  EXPECT_EQ(connects[0].kind, Kind::reject);
  EXPECT_EQ(connects[0].reason, wire::Reject::crossed);
  rig.core.on_answer(rig.now, request.lane, rig.answer(request), rig.out);
  EXPECT_EQ(rig.take_work().size(), 1u);
}

TEST(Crossing, TheHigherNameForgetsItsOwnAndAccepts) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(lesser);
  rig.send(peer);
  const LaneId mine = rig.take_connects().at(0).lane;
  rig.core.on_request(rig.now, RequestId{1}, rig.hello(lesser), rig.out);
  rig.settle();
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.size(), 2u);
  EXPECT_EQ(connects[0].kind, Kind::drop);
  EXPECT_EQ(connects[0].lane, mine);
  EXPECT_EQ(connects[1].kind, Kind::accept);
  rig.core.on_established(rig.now, connects[1].lane, rig.out);
  EXPECT_EQ(rig.take_work().size(), 1u);
  EXPECT_TRUE(rig.core.conserved());
}

TEST(Crossing, TheRefusedOneWaitsForThePeersRequestAndAsksAgainIfItIsLost) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(lesser);
  rig.send(peer);
  rig.core.on_rejected(rig.now, rig.take_connects().at(0).lane, wire::Reject::crossed, rig.out);
  EXPECT_EQ(rig.take_connects().at(0).kind, Kind::drop);
  EXPECT_EQ(rig.core.counters().credits_out, 0u);
  EXPECT_EQ(rig.core.state(peer), PeerState::waiting);
  rig.now = rig.core.next_deadline();
  rig.core.on_timer(rig.now, rig.out);
  EXPECT_EQ(rig.take_connects().at(0).kind, Kind::connect);
}

TEST(Connect, AReadyPeerIsNotAcceptedTwice) {
  Rig rig;
  rig.accept(other);
  rig.core.on_request(rig.now, RequestId{9}, rig.hello(other), rig.out);
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.size(), 1u);
  EXPECT_EQ(connects[0].kind, Kind::reject);
  EXPECT_EQ(connects[0].reason, wire::Reject::crossed);
}

// The connection manager may deliver requests in another order than they were made.
TEST(Connect, ARequestThatANewerOneOvertookEndsNothing) {
  Rig rig;
  const wire::Hello older = rig.hello(other);
  const LaneId lane = rig.accept(other);
  rig.arrive(lane,
             {.kind = wire::FrameKind::goodbye});  // it left: a newer request would be welcome
  rig.take_connects();
  rig.core.on_request(rig.now, RequestId{9}, older, rig.out);
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.size(), 1u);
  EXPECT_EQ(connects[0].kind, Kind::reject);
  EXPECT_EQ(connects[0].reason, wire::Reject::crossed);
  EXPECT_EQ(rig.core.state(rig.core.peer_of(lane)), PeerState::left);
}

TEST(Connect, ShowsThePeerThatItKnowsItsKey) {
  Rig rig;
  const wire::Key key{9, 9, 9};
  const PeerId peer = rig.core.add_peer(other, {.key = key});
  rig.send(peer);
  const ConnectAction first = rig.take_connects().at(0);
  EXPECT_EQ(first.hello.key, key);
  rig.core.on_connect_failed(rig.now, first.lane, FailReason::connect_timeout, rig.out);
  const auto again = rig.take_connects();
  EXPECT_EQ(again.at(1).hello.key, key);
  EXPECT_GT(again.at(1).hello.attempt, first.hello.attempt);
}

TEST(Connect, APeerThatLeftAndComesBackIsAccepted) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  rig.arrive(lane, {.kind = wire::FrameKind::goodbye});
  rig.sequence = 0;
  rig.accept(other);  // before its disconnect was heard
  EXPECT_EQ(rig.core.state(rig.core.add_peer(other)), PeerState::ready);
  EXPECT_TRUE(rig.core.conserved());
}

TEST(Connect, AsksAgainAndGivesUpInTheEnd) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.send(peer, 8, false, true);
  int asked = 0;
  for (int i = 0; i < 100 && rig.core.state(peer) == PeerState::connecting; ++i) {
    for (const ConnectAction& action : rig.take_connects()) asked += action.kind == Kind::connect;
    const Time deadline = rig.core.next_deadline();
    ASSERT_GT(deadline, rig.now);
    rig.now = deadline;
    rig.core.on_timer(rig.now, rig.out);
  }
  EXPECT_EQ(asked, 4);  // for 2, 4, 8 and 16 s, and a little more each
  EXPECT_EQ(rig.now - Time{1000}, seconds(30));
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].reason, FailReason::connect_timeout);
  const auto retired = rig.take_retired();
  ASSERT_EQ(retired.size(), 1u);
  EXPECT_FALSE(retired[0].delivered);
  EXPECT_EQ(rig.core.next_deadline(), Time::never());
  EXPECT_EQ(rig.core.counters().credits_out, 0u);
}

// The first attempt is cut; the second waits as long as the answer takes.
TEST(Connect, AnAnswerThatTakesLongIsWaitedFor) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.send(peer);
  rig.take_connects();
  rig.now = rig.core.next_deadline();
  rig.core.on_timer(rig.now, rig.out);
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.back().kind, Kind::connect);
  rig.now = rig.now + milliseconds(3900);
  rig.core.on_timer(rig.now, rig.out);
  EXPECT_TRUE(rig.take_connects().empty());
  rig.core.on_answer(rig.now, connects.back().lane, rig.answer(connects.back()), rig.out);
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
}

TEST(Connect, ManyThatAreNotHeardComeBackOneByOne) {
  std::set<Time> deadlines;
  for (std::uint32_t rank = 100; rank < 200; ++rank) {
    Core::Config config = rig::small_config();
    config.self.rank = rank;
    Rig rig(config);
    rig.send(rig.core.add_peer(other));
    deadlines.insert(rig.core.next_deadline());
    EXPECT_GE(rig.core.next_deadline() - rig.now, seconds(2));
    EXPECT_LT(rig.core.next_deadline() - rig.now, milliseconds(2500));
  }
  EXPECT_GE(deadlines.size(), 70u);
}

TEST(Connect, ARefusalBelowWeirIsFinal) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.send(peer);
  rig.core.on_connect_failed(rig.now, rig.take_connects().at(0).lane, FailReason::connect_refused,
                             rig.out);
  EXPECT_EQ(rig.take_failures().at(0).reason, FailReason::connect_refused);
  EXPECT_EQ(rig.core.connecting_count(), 0u);
}

// A link that comes back, or a subnet manager that is busy.
TEST(Connect, NoRouteIsFinalOnlyAfterTheTimeout) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.send(peer);
  int asked = 0;
  while (rig.core.state(peer) == PeerState::connecting) {
    for (const ConnectAction& action : rig.take_connects()) {
      if (action.kind != Kind::connect) continue;
      ++asked;
      rig.core.on_connect_failed(rig.now, action.lane, FailReason::connect_unreachable, rig.out);
    }
    ASSERT_TRUE(rig.out.failures.empty());
    const Time deadline = rig.core.next_deadline();
    ASSERT_GT(deadline, rig.now);  // not at once, again and again
    rig.now = deadline;
    rig.core.on_timer(rig.now, rig.out);
  }
  EXPECT_GE(asked, 12);  // nobody is bothered by it: every 2 s or a little later
  EXPECT_EQ(rig.take_failures().at(0).reason, FailReason::connect_unreachable);
  EXPECT_EQ(rig.core.counters().credits_out, 0u);
}

TEST(Connect, NoRouteForAMomentIsForgotten) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.send(peer);
  rig.core.on_connect_failed(rig.now, rig.take_connects().at(0).lane,
                             FailReason::connect_unreachable, rig.out);
  rig.now = rig.core.next_deadline();
  rig.core.on_timer(rig.now, rig.out);
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.back().kind, Kind::connect);
  rig.core.on_answer(rig.now, connects.back().lane, rig.answer(connects.back()), rig.out);
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
}

TEST(Connect, APeerThatIsClosingIsAskedAgainLater) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.send(peer);
  rig.core.on_rejected(rig.now, rig.take_connects().at(0).lane, wire::Reject::closing, rig.out);
  EXPECT_TRUE(rig.take_failures().empty());
  EXPECT_EQ(rig.take_connects().at(0).kind, Kind::drop);
  rig.now = rig.core.next_deadline();
  rig.core.on_timer(rig.now, rig.out);
  EXPECT_EQ(rig.take_connects().at(0).kind, Kind::connect);
}

// The credits of an attempt that came to nothing must not be added to those of the next.
TEST(Connect, ForgetsWhatAnEarlierAttemptBrought) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.core.on_request(rig.now, RequestId{1}, rig.hello(other, 50), rig.out);
  rig.settle();
  rig.send(peer);
  const LaneId lane = rig.take_connects().at(0).lane;
  rig.core.on_connect_failed(rig.now, lane, FailReason::connect_timeout, rig.out);
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.size(), 2u);
  ASSERT_EQ(connects[1].kind, Kind::connect);
  rig.core.on_answer(rig.now, connects[1].lane, rig.answer(connects[1], 3), rig.out);
  EXPECT_EQ(rig.core.standing(peer).credits, 2u);
}

// ---- the end ----

TEST(Close, SaysGoodbyeAfterEverythingElse) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 8);
  rig.send(peer, 600);
  auto work = rig.take_work();
  rig.core.close(rig.now, peer, rig.out);
  const auto goodbye = rig.take_work();
  ASSERT_EQ(goodbye.size(), 1u);
  EXPECT_EQ(rig.header_of(goodbye[0]).kind, wire::FrameKind::goodbye);
  EXPECT_EQ(rig.core.state(peer), PeerState::said);
  EXPECT_EQ(rig.send(peer), Status::peer_failed);
  EXPECT_TRUE(rig.take_connects().empty());
  rig.complete(goodbye[0]);
  EXPECT_TRUE(rig.core.closed(peer));
  EXPECT_EQ(rig.take_connects().at(0).kind, Kind::drop);
  for (const Retired& retired : rig.take_retired()) EXPECT_TRUE(retired.delivered);
  EXPECT_TRUE(rig.take_failures().empty());
  EXPECT_EQ(rig.core.counters().credits_out, 0u);
}

TEST(Close, WaitsForWhatIsPending) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.connect(peer, 1);
  rig.take_work();
  rig.send(peer, 600);
  rig.core.close(rig.now, peer, rig.out);
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
  rig.arrive(lane, {.kind = wire::FrameKind::credits, .credits = 1});
  EXPECT_EQ(rig.take_work().size(), 1u);
  rig.core.close(rig.now, peer, rig.out);
  EXPECT_EQ(rig.core.state(peer), PeerState::said);
}

TEST(Close, SaysOneGoodbyeHoweverOftenItIsAsked) {
  Rig rig;
  const PeerId peer = rig.core.peer_of(rig.accept(other));
  for (int i = 0; i < 5; ++i) rig.core.close(rig.now, peer, rig.out);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  rig.complete(work[0]);
  EXPECT_TRUE(rig.core.closed(peer));
}

TEST(Close, APeersGoodbyeIsNoFailure) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  const PeerId peer = rig.core.peer_of(lane);
  rig.arrive(lane, {.kind = wire::FrameKind::goodbye});
  rig.core.on_disconnected(rig.now, lane, rig.out);
  EXPECT_TRUE(rig.take_failures().empty());
  EXPECT_TRUE(rig.core.closed(peer));
  EXPECT_EQ(rig.send(peer), Status::ok);  // and a new connection may be made
  EXPECT_EQ(rig.core.state(peer), PeerState::connecting);
}

// What it would have taken is nobody's any more.
TEST(Close, APeerThatLeftIsNotWaitedFor) {
  Rig rig;
  const LaneId lane = rig.accept(other, 1);
  const PeerId peer = rig.core.peer_of(lane);
  rig.send(peer, 600, false, true);
  rig.send(peer, 600, false, true);
  ASSERT_EQ(rig.core.pending_frames(), 1u);
  rig.arrive(lane, {.kind = wire::FrameKind::goodbye});
  rig.core.close(rig.now, peer, rig.out);
  EXPECT_TRUE(rig.core.closed(peer));
  EXPECT_EQ(rig.take_retired().size(), 2u);
  EXPECT_EQ(rig.core.pending_frames(), 0u);
}

TEST(Close, ABrokenLaneAfterAPeersGoodbyeIsNoFailure) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  rig.arrive(lane, {.kind = wire::FrameKind::goodbye});
  rig.core.on_lane_error(rig.now, lane, rig.out);
  EXPECT_TRUE(rig.take_failures().empty());
  EXPECT_TRUE(rig.core.closed(rig.core.peer_of(lane)));
}

// What was under way to it when it went does not matter.
TEST(Close, AnErrorAfterAPeersGoodbyeIsNoFailure) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  const PeerId peer = rig.core.peer_of(lane);
  rig.send(peer, 8, false, true);
  const auto work = rig.take_work();
  rig.arrive(lane, {.kind = wire::FrameKind::goodbye});
  rig.complete(work.at(0), CompletionStatus::retry_exc_err);
  EXPECT_TRUE(rig.take_failures().empty());
  EXPECT_TRUE(rig.core.closed(peer));
  const auto retired = rig.take_retired();
  ASSERT_EQ(retired.size(), 1u);
  EXPECT_FALSE(retired[0].delivered);
}

TEST(Close, BothAtOnce) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  const PeerId peer = rig.core.peer_of(lane);
  rig.core.close(rig.now, peer, rig.out);
  EXPECT_EQ(rig.take_work().size(), 1u);
  rig.arrive(lane, {.kind = wire::FrameKind::goodbye});
  EXPECT_TRUE(rig.core.closed(peer));
  EXPECT_TRUE(rig.core.conserved());
}

TEST(Close, AStrangerOrAnUnusedPeerIsClosedAtOnce) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  EXPECT_TRUE(rig.core.closed(peer));
  rig.core.close(rig.now, peer, rig.out);
  EXPECT_TRUE(rig.core.closed(peer));
  EXPECT_TRUE(rig.take_connects().empty());
  rig.accept(other);
  rig.core.abandon(rig.now, peer, rig.out);
  EXPECT_TRUE(rig.core.closed(peer));
  rig.core.abandon(rig.now, peer, rig.out);
}

// A lane's number is used again; what the old one left behind does not touch the new one.
TEST(Close, LanesAreUsedAgain) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const LaneId first = rig.accept(other);
  for (int i = 0; i < 5; ++i) {
    rig.arrive(first, {});
    rig.core.release(rig.take_deliveries().at(0).buffer);
    rig.core.close(rig.now, peer, rig.out);
    rig.complete(rig.take_work().back());
    ASSERT_TRUE(rig.core.closed(peer));
    rig.take_connects();
    rig.sequence = 0;
    EXPECT_EQ(rig.accept(other), first);
    rig.core.begin_round();
    rig.send(peer);
    EXPECT_EQ(rig.take_work().at(0).id, 0u);
  }
  EXPECT_TRUE(rig.core.conserved());
}

// Its queue pair exists until the drop is carried out, and what comes from it would be taken for
// that of the next peer.
TEST(Close, ALaneIsNobodysBeforeItsDropIsCarriedOut) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.connect(peer);
  rig.core.on_lane_error(rig.now, lane, rig.out);
  ASSERT_EQ(rig.core.state(peer), PeerState::failed);

  const PeerName third{other.job, other.rank + 1};
  rig.core.on_request(rig.now, RequestId{7}, rig.hello(third), rig.out);
  rig.settle();
  ASSERT_EQ(rig.out.connects.size(), 2u);
  EXPECT_EQ(rig.out.connects[0].kind, Kind::drop);
  EXPECT_EQ(rig.out.connects[0].lane, lane);
  EXPECT_NE(rig.out.connects[1].lane, lane);

  rig.core.on_disconnected(rig.now, lane, rig.out);
  EXPECT_EQ(rig.core.state(rig.core.add_peer(third)), PeerState::accepting);
}

// ---- failure ----

TEST(Failure, IsReportedOnceAndGivesEverythingBack) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 3);
  for (int i = 0; i < 6; ++i) rig.send(peer, 600);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 3u);
  rig.complete(work[0], CompletionStatus::retry_exc_err);
  rig.complete(work[1], CompletionStatus::wr_flush_err);
  rig.complete(work[2], CompletionStatus::wr_flush_err);
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].peer, peer);
  EXPECT_EQ(failures[0].reason, FailReason::send_failed);
  EXPECT_EQ(failures[0].completion, CompletionStatus::retry_exc_err);
  const auto retired = rig.take_retired();
  EXPECT_EQ(retired.size(), 7u);
  for (const Retired& each : retired) EXPECT_FALSE(each.delivered);
  EXPECT_EQ(rig.core.counters().credits_out, 0u);
  EXPECT_EQ(rig.core.counters().peer_failures, 1u);
}

TEST(Failure, ADisconnectWithoutGoodbye) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  rig.core.on_disconnected(rig.now, lane, rig.out);
  rig.core.on_disconnected(rig.now, lane, rig.out);
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].reason, FailReason::vanished);
  rig.core.on_request(rig.now, RequestId{5}, rig.hello(other), rig.out);
  EXPECT_EQ(rig.take_connects().back().reason, wire::Reject::closing);
}

// As on a further rail, where nothing depends on the connection.
TEST(Failure, IsNotForGoodIfTheConnectionIsForParts) {
  Core::Config config = rig::small_config();
  config.among_rails = true;
  Rig rig(config);
  const LaneId lane = rig.accept(other);
  const PeerId peer = rig.core.find(other);
  rig.core.on_disconnected(rig.now, lane, rig.out);
  ASSERT_EQ(rig.take_failures().size(), 1u);
  EXPECT_TRUE(rig.core.closed(peer));
  rig.settle();
  rig.take_connects();
  rig.core.connect(rig.now, peer, rig.out);
  const auto asked = rig.take_connects();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].kind, ConnectAction::Kind::connect);
  rig.core.on_connect_failed(rig.now, asked[0].lane, FailReason::connect_refused, rig.out);
  EXPECT_EQ(rig.take_failures().size(), 1u) << "each time it is lost";
  rig.settle();
  rig.sequence = 0;
  rig.accept(other);
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
  rig.core.connect(rig.now, peer, rig.out);
  EXPECT_TRUE(rig.take_connects().empty()) << "there is one";
}

TEST(Failure, AFailedReceiveOrLane) {
  Rig rig;
  LaneId lane = rig.accept(other);
  rig.arrive_bytes(lane, {}, CompletionStatus::loc_len_err);
  auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].reason, FailReason::receive_failed);
  EXPECT_EQ(failures[0].completion, CompletionStatus::loc_len_err);
  EXPECT_EQ(rig.core.counters().receives_held, 0u);
  rig.sequence = 0;
  lane = rig.accept(lesser);
  rig.core.on_lane_error(rig.now, lane, rig.out);
  EXPECT_EQ(rig.take_failures().at(0).completion, CompletionStatus::fatal_err);
  EXPECT_TRUE(rig.core.conserved());
}

TEST(Failure, WithTheAdapterEveryPeerIsLost) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 3);
  rig.send(peer, 600);
  const PeerId unused = rig.core.add_peer(lesser);
  rig.take_work();
  rig.core.give_up_all(rig.now, rig.out);
  rig.core.give_up_all(rig.now, rig.out);
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 2u);
  for (const Failure& failure : failures) EXPECT_EQ(failure.reason, FailReason::adapter_broken);
  EXPECT_FALSE(rig.take_retired().empty());
  EXPECT_EQ(rig.core.state(peer), PeerState::failed);
  EXPECT_EQ(rig.core.state(unused), PeerState::failed);
  EXPECT_TRUE(rig.core.conserved());
}

// ---- by itself

using rig::Rooms;
using Told = std::vector<std::string>;

TEST(Connector, OfAPeerOneConnectionIsAskedForAndSettledOnce) {
  Rooms rooms;
  Peer& peer = rooms.connect(other, 4);
  EXPECT_EQ(rooms.take_told(), Told{"ready"});
  EXPECT_EQ(rooms.connector.pending(), 0u);
  EXPECT_EQ(rooms.connector.next_deadline(), Time::never());
  rooms.connector.on_established(rooms.now, peer.connection.lane(), rooms.out);
  rooms.connector.on_rejected(rooms.now, peer.connection.lane(), wire::Reject::stranger, rooms.out);
  rooms.connector.on_connect_failed(rooms.now, peer.connection.lane(), FailReason::connect_timeout,
                                    rooms.out);
  EXPECT_TRUE(rooms.take_told().empty());
  EXPECT_TRUE(peer.connection.is_ready());
  EXPECT_TRUE(rooms.out.failures.empty());
}

TEST(Connector, WhoIsGivenUpIsReportedOnceAndItsLaneGoes) {
  Rooms rooms;
  Peer& peer = rooms.connect(other, 4);
  const LaneId lane = peer.connection.lane();
  SendSlot* const frame = rooms.send(peer);
  rooms.take_told();
  for (int i = 0; i < 2; ++i) {
    rooms.connector.fail(rooms.now, peer, FailReason::stalled, rooms.out);
  }
  EXPECT_EQ(rooms.take_told(), (Told{"lane ends", "gone"}));
  ASSERT_EQ(rooms.out.failures.size(), 1u);
  EXPECT_EQ(rooms.out.failures[0].reason, FailReason::stalled);
  EXPECT_EQ(rooms.frames_lost, (std::vector<SendSlot*>{frame}));
  EXPECT_EQ(rooms.lanes.open(lane), nullptr);
  EXPECT_TRUE(rooms.receiver.conserved(0));
}

TEST(Connector, EveryAttemptHasALaneOfItsOwnUntilThePeerIsGivenUp) {
  Rooms rooms;
  Peer& peer = rooms.add(other);
  rooms.connector.connect(rooms.now, peer, rooms.out);
  const Time begin = rooms.now;
  int attempts = 1;
  while (rooms.connector.pending() > 0) {
    ASSERT_NE(rooms.connector.next_deadline(), Time::never());
    rooms.now = rooms.connector.next_deadline();
    rooms.take_connects();
    rooms.connector.on_timer(rooms.now, rooms.out);
    rooms.settle();
    const auto connects = rooms.take_connects();
    ASSERT_FALSE(connects.empty());
    EXPECT_EQ(connects[0].kind, Kind::drop);
    if (peer.connection.is_pending()) {
      ++attempts;
      ASSERT_EQ(connects.size(), 2u);
      EXPECT_EQ(connects[1].kind, Kind::connect);
      EXPECT_NE(connects[1].lane, connects[0].lane);
    }
  }
  EXPECT_EQ(peer.connection.state(), PeerState::failed);
  EXPECT_EQ(attempts, 4);  // for 2, 4, 8, 16 s
  EXPECT_GE(rooms.now - begin, rooms.config.connect_timeout);
  EXPECT_EQ(rooms.out.failures.size(), 1u);
}

TEST(Connector, LeavesWhenNothingWaitsAndTheGoodbyeIsDelivered) {
  Rooms rooms;
  Peer& peer = rooms.connect(other, 4);
  rooms.take_told();
  rooms.work_waits = true;
  rooms.connector.close(rooms.now, peer, rooms.out);
  EXPECT_TRUE(peer.connection.is_ready());
  rooms.work_waits = false;
  rooms.connector.close(rooms.now, peer, rooms.out);
  EXPECT_EQ(peer.connection.state(), PeerState::said);
  const auto work = rooms.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(Rooms::header_of(work[0]).kind, wire::FrameKind::goodbye);
  rooms.connector.go_on_ending(rooms.now, peer, rooms.out);
  EXPECT_FALSE(Connector::is_closed(peer));  // the goodbye is under way
  rooms.retire(work[0]);
  rooms.connector.go_on_ending(rooms.now, peer, rooms.out);
  EXPECT_TRUE(Connector::is_closed(peer));
  EXPECT_EQ(rooms.take_told(), (Told{"lane ends", "gone"}));
  EXPECT_TRUE(rooms.out.failures.empty());
}

}  // namespace
}  // namespace weir
