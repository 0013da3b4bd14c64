// Idle connections that end because another needs their place (`connections_max`).
#include <gtest/gtest.h>

#include "tests/unit/core/rig.h"

namespace weir {
namespace {

using rig::lesser;
using rig::other;
using rig::Rig;
using Kind = ConnectAction::Kind;
using wire::FrameKind;

Core::Config with_places(std::uint32_t most) {
  Core::Config config = rig::small_config();
  config.connections_max = most;
  return config;
}

TransferRequest put_to(PeerId peer) {
  TransferRequest request{};
  request.token = 3;
  request.peer = peer;
  request.opcode = Opcode::write;
  request.length_bytes = 64;
  return request;
}

struct OnePlace : Rig {
  explicit OnePlace(std::uint32_t most = 1) : Rig(with_places(most)) {}

  // A connection that we asked for, used and need no more; so the hand of the clock has passed it.
  PeerId idle_peer(PeerName name) {
    const PeerId peer = core.add_peer(name);
    lane = connect(peer);
    for (const WorkRequest& work : take_work()) complete(work);
    take_retired();
    return peer;
  }

  // The one frame that was posted.
  FrameKind posted_kind() {
    const auto work = take_work();
    EXPECT_EQ(work.size(), 1u);
    if (work.empty()) return FrameKind::messages;
    last = work[0];
    return header_of(work[0]).kind;
  }

  LaneId lane{};
  WorkRequest last{};
};

// A peer asks whether it may part from us, and a message to it is not known to have arrived.
struct Agreed : Rig {
  Agreed() : lane(accept(other)), peer(core.peer_of(lane)) {
    EXPECT_EQ(send(peer, 8, false, true), Status::ok);
    take_work();
    arrive(lane, {.kind = FrameKind::part});
  }

  LaneId lane;
  PeerId peer;
};

TEST(Parting, AnIdleConnectionMakesRoomForAnother) {
  OnePlace rig;
  const PeerId idle = rig.idle_peer(other);
  const PeerId next = rig.core.add_peer(lesser);
  rig.send(next);
  EXPECT_TRUE(rig.take_connects().empty());
  EXPECT_FALSE(rig.core.closed(next));
  EXPECT_EQ(rig.posted_kind(), FrameKind::part);
  EXPECT_TRUE(rig.last.solicited);  // the peer may compute
  EXPECT_EQ(rig.core.state(idle), PeerState::parting);
  EXPECT_TRUE(rig.core.needs_attendance());

  rig.arrive(rig.lane, {.kind = FrameKind::goodbye});
  EXPECT_EQ(rig.core.state(idle), PeerState::idle);
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.size(), 2u);
  EXPECT_EQ(connects[0].kind, Kind::drop);
  EXPECT_EQ(connects[1].kind, Kind::connect);
  EXPECT_EQ(connects[1].peer, next);
  EXPECT_EQ(rig.core.counters().connections_parted, 1u);
  EXPECT_EQ(rig.core.counters().connections_over, 0u);
  EXPECT_EQ(rig.core.counters().connections_open, 1u);
  EXPECT_TRUE(rig.take_failures().empty());
  EXPECT_TRUE(rig.core.conserved());
}

TEST(Parting, WhatIsSentMeanwhileGoesWithTheNextConnection) {
  OnePlace rig;
  const PeerId idle = rig.idle_peer(other);
  const PeerId next = rig.core.add_peer(lesser);
  rig.send(next);
  EXPECT_EQ(rig.posted_kind(), FrameKind::part);
  EXPECT_EQ(rig.send(idle), Status::ok);
  EXPECT_TRUE(rig.take_work().empty());
  rig.arrive(rig.lane, {.kind = FrameKind::goodbye});
  // Both want the one place; nobody can part yet, so the second waits until patience is over.
  rig.take_connects();
  EXPECT_EQ(rig.core.connecting_count(), 1u);
  rig.now = rig.now + Places::patience;
  rig.core.on_timer(rig.now, rig.out);
  EXPECT_EQ(rig.core.connecting_count(), 2u);
  EXPECT_EQ(rig.core.counters().connections_over, 1u);
}

TEST(Parting, WhoHasNothingUnderWayAgrees) {
  Agreed rig;
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).kind, FrameKind::goodbye);
  EXPECT_TRUE(work[0].solicited);
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::parted);
  EXPECT_TRUE(rig.take_connects().empty());  // it has to arrive

  rig.send(rig.peer);
  EXPECT_TRUE(rig.take_work().empty());
  rig.complete(work[0]);
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.size(), 2u);
  EXPECT_EQ(connects[0].kind, Kind::drop);
  EXPECT_EQ(connects[1].kind, Kind::connect);
  for (const Retired& retired : rig.take_retired()) EXPECT_TRUE(retired.delivered);
  EXPECT_TRUE(rig.take_failures().empty());
}

// It has seen our goodbye, and so all that came before.
TEST(Parting, IfThePeerDisconnectsAllHasArrived) {
  Agreed rig;
  rig.core.on_disconnected(rig.now, rig.lane, rig.out);
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::idle);
  const auto retired = rig.take_retired();
  ASSERT_EQ(retired.size(), 1u);
  EXPECT_TRUE(retired[0].delivered);
  EXPECT_TRUE(rig.take_failures().empty());
}

// The asker has our goodbye, or gives us up: it takes no connection from us before.
TEST(Parting, AnErrorAfterTheAgreementIsNoFailure) {
  Agreed rig;
  rig.complete(rig.take_work().back(), CompletionStatus::retry_exc_err);
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::idle);
  EXPECT_TRUE(rig.take_retired().at(0).delivered);
  EXPECT_TRUE(rig.take_failures().empty());
}

TEST(Parting, WhoHasNoAnswerTakesNoNewConnection) {
  OnePlace rig;
  const PeerId idle = rig.idle_peer(other);
  rig.send(rig.core.add_peer(lesser));
  EXPECT_EQ(rig.posted_kind(), FrameKind::part);
  rig.core.on_request(rig.now, RequestId{99}, rig.hello(other, 4), rig.out);
  EXPECT_EQ(rig.core.state(idle), PeerState::parting);
  rig.complete(rig.last, CompletionStatus::retry_exc_err);
  EXPECT_EQ(rig.core.state(idle), PeerState::failed);
  EXPECT_EQ(rig.take_failures().size(), 1u);
}

TEST(Parting, WhoHasFramesWaitingStays) {
  Rig rig;
  const LaneId lane = rig.accept(other, 1);
  const PeerId peer = rig.core.peer_of(lane);
  rig.send(peer, 600);
  rig.send(peer, 600);
  rig.take_work();
  ASSERT_TRUE(rig.core.has_pending(peer));
  rig.arrive(lane, {.kind = FrameKind::part});
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).kind, FrameKind::stay);
  EXPECT_TRUE(work[0].solicited);
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
}

TEST(Parting, WhoIsToldToStayGoesOnAndAsksNobodyTwiceAtOnce) {
  OnePlace rig;
  const PeerId idle = rig.idle_peer(other);
  rig.send(rig.core.add_peer(lesser));
  EXPECT_EQ(rig.posted_kind(), FrameKind::part);
  rig.complete(rig.last);
  rig.send(idle);
  rig.arrive(rig.lane, {.kind = FrameKind::stay});
  EXPECT_EQ(rig.core.state(idle), PeerState::ready);
  EXPECT_EQ(rig.posted_kind(), FrameKind::messages);
  rig.complete(rig.last);
  EXPECT_EQ(rig.core.counters().connections_kept, 1u);
  for (int i = 0; i < 4; ++i) {
    rig.now = rig.now + milliseconds(3);
    rig.core.on_timer(rig.now, rig.out);
  }
  EXPECT_TRUE(rig.take_work().empty());
}

// One-sided operations wait, too, and none is lost.
TEST(Parting, ATransferWaitsForTheAnswer) {
  OnePlace rig;
  const PeerId idle = rig.idle_peer(other);
  rig.send(rig.core.add_peer(lesser));
  EXPECT_EQ(rig.posted_kind(), FrameKind::part);
  rig.core.transfer(rig.now, put_to(idle), rig.out);
  EXPECT_TRUE(rig.take_work().empty());
  rig.arrive(rig.lane, {.kind = FrameKind::stay});
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].opcode, Opcode::write);
  EXPECT_TRUE(rig.out.transfers.empty());
}

TEST(Parting, WhoHasATransferUnderWayStays) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  const PeerId peer = rig.core.peer_of(lane);
  rig.core.transfer(rig.now, put_to(peer), rig.out);
  rig.take_work();
  rig.arrive(lane, {.kind = FrameKind::part});
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).kind, FrameKind::stay);
}

TEST(Parting, TwoThatAskEachOtherAgree) {
  OnePlace rig;
  const PeerId idle = rig.idle_peer(other);
  rig.send(rig.core.add_peer(lesser));
  EXPECT_EQ(rig.posted_kind(), FrameKind::part);
  const WorkRequest ours = rig.last;
  rig.arrive(rig.lane, {.kind = FrameKind::part});
  EXPECT_TRUE(rig.take_work().empty());  // no answer is due
  EXPECT_EQ(rig.core.state(idle), PeerState::parted);
  rig.complete(ours);  // now the peer has our question, and all before it
  EXPECT_EQ(rig.core.state(idle), PeerState::idle);
}

TEST(Parting, AnAnswerThatFindsNoSlotIsGivenLater) {
  Rig rig;
  const LaneId lane = rig.accept(other, 1);
  const PeerId peer = rig.core.peer_of(lane);
  rig.send(peer, 600);
  rig.send(peer, 600);
  ASSERT_EQ(rig.take_work().size(), 1u);
  for (int i = 0; i < 4; ++i) rig.arrive(lane, {.kind = FrameKind::part});
  const auto answers = rig.take_work();
  ASSERT_EQ(answers.size(), 4u);  // as many as there are slots
  rig.arrive(lane, {.kind = FrameKind::part});
  EXPECT_TRUE(rig.take_work().empty());
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
  rig.complete(answers.back());
  EXPECT_EQ(rig.header_of(rig.take_work().at(0)).kind, FrameKind::stay);
}

// Our question would be taken for an agreement, of which we would know nothing.
TEST(Parting, WhoWaitsForOurAnswerIsNotAsked) {
  OnePlace rig;
  const PeerId idle = rig.idle_peer(other);
  std::vector<WorkRequest> answers;
  rig.core.transfer(rig.now, put_to(idle), rig.out);
  const auto put = rig.take_work();
  for (int i = 0; i < 4; ++i) rig.arrive(rig.lane, {.kind = FrameKind::part});
  EXPECT_EQ(rig.take_work().size(), 4u);
  rig.arrive(rig.lane, {.kind = FrameKind::part});
  EXPECT_TRUE(rig.take_work().empty());
  rig.core.on_completion(rig.now, {Opcode::write, CompletionStatus::success, 0, put[0].lane,
                                   put[0].id}, rig.out);
  rig.send(rig.core.add_peer(lesser));
  for (const WorkRequest& work : rig.take_work()) {
    EXPECT_NE(rig.header_of(work).kind, FrameKind::part);
  }
}

// The buffer of a credit that is not spent takes the question.
TEST(Parting, WhoHasNoCreditDoesNotAsk) {
  OnePlace rig;
  const PeerId idle = rig.core.add_peer(other);
  const LaneId lane = rig.connect(idle, 1);  // spent on the first message
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  rig.send(rig.core.add_peer(lesser));
  EXPECT_TRUE(rig.take_work().empty());
  rig.arrive(lane, {.kind = FrameKind::credits, .credits = 1});
  rig.now = rig.now + Places::patience / 2;
  rig.core.on_timer(rig.now, rig.out);
  EXPECT_EQ(rig.posted_kind(), FrameKind::part);
}

TEST(Parting, NobodyAnswersWhatWasNotAsked) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  const PeerId peer = rig.core.peer_of(lane);
  rig.arrive(lane, {.kind = FrameKind::stay});
  EXPECT_EQ(rig.core.state(peer), PeerState::failed);
  EXPECT_EQ(rig.take_failures().at(0).frame.fault, FrameFault::part);
}

TEST(Parting, NobodyAsksAgainBeforeTheAnswer) {
  Rig rig;
  const LaneId lane = rig.accept(other, 1);
  const PeerId peer = rig.core.peer_of(lane);
  rig.send(peer, 600);
  rig.send(peer, 600);
  for (int i = 0; i < 5; ++i) rig.arrive(lane, {.kind = FrameKind::part});  // four are answered
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
  rig.arrive(lane, {.kind = FrameKind::part});
  EXPECT_EQ(rig.take_failures().at(0).frame.fault, FrameFault::part);
}

TEST(Parting, NothingComesAfterAnAgreement) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  rig.arrive(lane, {.kind = FrameKind::part});
  rig.arrive(lane, {.kind = FrameKind::messages});
  EXPECT_EQ(rig.take_failures().at(0).frame.fault, FrameFault::after_goodbye);
}

TEST(Parting, TheOneThatWasNotUsedForLongestGoes) {
  OnePlace rig(2);
  const PeerId first = rig.idle_peer(other);
  const PeerId second = rig.core.add_peer(lesser);
  rig.connect(second);
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  rig.send(rig.core.add_peer({1, 40}));
  EXPECT_EQ(rig.posted_kind(), FrameKind::part);
  EXPECT_EQ(rig.core.state(first), PeerState::parting);
  EXPECT_EQ(rig.core.state(second), PeerState::ready);
}

TEST(Parting, WhoseConnectionWasUsedSinceTheLastLookIsNotAsked) {
  OnePlace rig(3);
  const PeerId first = rig.idle_peer(other);
  const LaneId lane = rig.lane;
  const PeerId second = rig.idle_peer(lesser);
  const PeerId third = rig.idle_peer({1, 40});
  rig.send(rig.core.add_peer({1, 41}));
  EXPECT_EQ(rig.posted_kind(), FrameKind::part);
  ASSERT_EQ(rig.core.state(first), PeerState::parting);
  rig.send(second);
  rig.take_work();
  rig.sequence = 0;
  rig.arrive(lane, {.kind = FrameKind::stay});
  EXPECT_EQ(rig.core.state(second), PeerState::ready);
  EXPECT_EQ(rig.core.state(third), PeerState::parting);
}

TEST(Parting, ARequestWaitsForAPlace) {
  OnePlace rig;
  const PeerId idle = rig.idle_peer(other);
  EXPECT_FALSE(rig.core.may_take_request(rig.now, rig.hello(lesser), 1, rig.out));
  EXPECT_EQ(rig.posted_kind(), FrameKind::part);
  EXPECT_TRUE(rig.core.is_leaving(other));
  EXPECT_FALSE(rig.core.may_take_request(rig.now, rig.hello(lesser), 1, rig.out));
  EXPECT_TRUE(rig.take_work().empty());
  EXPECT_NE(rig.core.next_deadline(), Time::never());
  rig.arrive(rig.lane, {.kind = FrameKind::goodbye});
  EXPECT_EQ(rig.core.state(idle), PeerState::idle);
  EXPECT_TRUE(rig.core.may_take_request(rig.now, rig.hello(lesser), 1, rig.out));
}

TEST(Parting, ARequestOfOneWhoHasAPlaceDoesNotWait) {
  OnePlace rig;
  const PeerId asked = rig.core.add_peer(other);
  rig.send(asked);  // our own request crosses with the peer's
  EXPECT_TRUE(rig.core.may_take_request(rig.now, rig.hello(other), 1, rig.out));
  EXPECT_FALSE(rig.core.may_take_request(rig.now, rig.hello(lesser), 1, rig.out));
}

TEST(Parting, WhoIsToldThatItsSessionIsOverNeedsNoPlace) {
  OnePlace rig;
  rig.idle_peer(other);
  wire::Hello hello = rig.hello(lesser);
  hello.resumes = true;
  hello.received = 1;
  EXPECT_TRUE(rig.core.may_take_request(rig.now, hello, 1, rig.out));
  rig.core.on_request(rig.now, RequestId{1}, hello, rig.out);
  EXPECT_EQ(rig.take_connects().back().reason, wire::Reject::over);
}

TEST(Parting, OneWhoIsGivenUpNoLongerWaitsForAPlace) {
  OnePlace rig;
  rig.idle_peer(other);
  const PeerId next = rig.core.add_peer(lesser);
  rig.send(next);
  rig.core.give_up_all(rig.now, rig.out);
  EXPECT_EQ(rig.core.state(next), PeerState::failed);
  EXPECT_EQ(rig.core.pending_frames(), 0u);
  EXPECT_EQ(rig.core.counters().connections_open, 0u);
}

TEST(Parting, LeavingWaitsForWhatWantsAPlace) {
  OnePlace rig;
  rig.idle_peer(other);
  const PeerId next = rig.core.add_peer(lesser);
  rig.send(next);
  rig.core.close(rig.now, next, rig.out);
  EXPECT_FALSE(rig.core.closed(next));
  rig.core.abandon(rig.now, next, rig.out);
  EXPECT_TRUE(rig.core.closed(next));
  EXPECT_EQ(rig.core.pending_frames(), 0u);
}

// Else processes that ask each other could wait in a circle.
TEST(Parting, HalfOfThePlacesAreForThosePeersThatAsk) {
  OnePlace rig{4};
  for (std::uint32_t rank = 50; rank < 53; ++rank) rig.send(rig.core.add_peer({1, rank}));
  EXPECT_EQ(rig.take_connects().size(), 2u);
  EXPECT_TRUE(rig.core.may_take_request(rig.now, rig.hello({1, 60}), 1, rig.out));
  rig.accept({1, 60});
  EXPECT_TRUE(rig.core.may_take_request(rig.now, rig.hello({1, 61}), 1, rig.out));
  rig.now = rig.now + Places::patience;
  rig.core.on_timer(rig.now, rig.out);  // nobody answers: it waits no longer
  EXPECT_EQ(rig.take_connects().size(), 1u);
}

TEST(Parting, AConnectionToOurselvesTakesNoPlace) {
  OnePlace rig;
  rig.idle_peer(other);
  rig.send(rig.core.add_peer(rig::self));
  EXPECT_EQ(rig.take_connects().at(0).kind, Kind::loop);
  EXPECT_EQ(rig.core.counters().connections_open, 1u);
}

// The window need not cover more peers than there are places for.
TEST(Parting, NoMoreAreExpectedThanThereArePlaces) {
  Core::Config config = with_places(4);
  config.window.max = 16;
  config.window.most = 4096;
  Rig few(config);
  few.core.expect_peers(500);
  config.connections_max = 0;
  Rig all(config);
  all.core.expect_peers(500);
  EXPECT_LT(few.core.window_max(), 64u);
  EXPECT_GE(all.core.window_max(), 2000u);
}

}  // namespace
}  // namespace weir
