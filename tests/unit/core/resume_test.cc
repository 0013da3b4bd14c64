// Connections that break, and the sessions that go on over the next ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/expose.h"
#include "tests/unit/core/rig.h"

namespace weir {
namespace {

using rig::lesser;
using rig::other;
using Kind = ConnectAction::Kind;

constexpr CompletionStatus outage = CompletionStatus::retry_exc_err;

WEIR_EXPOSE(LanesOf, Core::lanes_);

// A connection that we asked for, and frames on it that the peer has not acknowledged.
struct Session : rig::Rig {
  explicit Session(int frames = 2, Core::Config config = resuming())
      : rig::Rig(config), peer(core.add_peer(other)), lane(connect(peer)) {
    for (const WorkRequest& work : take_work()) complete(work);
    for (int i = 0; i < frames; ++i) EXPECT_EQ(send(peer, 8, false, true), Status::ok);
    pump();
    under_way = take_work();
    take_retired();
  }

  static Core::Config resuming() {
    Core::Config config = rig::small_config();
    config.resumes = true;
    config.burst_frames = 8;
    return config;
  }

  // The lane breaks, its end is fenced, and we ask for the next one.
  ConnectAction lose(CompletionStatus status = outage) {
    complete(under_way.at(0), status);
    const auto actions = take_connects();
    EXPECT_EQ(actions.size(), 2u);
    EXPECT_EQ(actions.at(0).kind, Kind::drop);
    EXPECT_EQ(actions.at(0).lane, lane);
    return actions.back();
  }

  // The peer answers that it has received so many frames.
  void resume(const ConnectAction& request, std::uint32_t received) {
    wire::Hello hello = answer(request, 6);
    hello.resumes = true;
    hello.received = received;
    lane = request.lane;
    core.on_answer(now, lane, hello, out);
    settle();
  }

  // The peer is given up, once, after `peer_timeout`.
  Failure wait_in_vain() {
    now = now + core.config().peer_timeout + seconds(1);
    core.on_timer(now, out);
    settle();
    const auto failures = take_failures();
    EXPECT_EQ(failures.size(), 1u);
    return failures.at(0);
  }

  FailReason failed_for() {
    const auto failures = take_failures();
    return failures.size() == 1 ? failures[0].reason : FailReason::none;
  }

  PeerId peer;
  LaneId lane;
  std::vector<WorkRequest> under_way;
};

TEST(Resume, WhatThePeerHasIsOverAndTheRestGoesAgain) {
  Session rig(3);  // frames 1, 2 and 3
  const ConnectAction request = rig.lose();
  EXPECT_EQ(request.kind, Kind::connect);
  EXPECT_TRUE(request.hello.resumes);
  EXPECT_EQ(request.hello.received, 0u);
  EXPECT_TRUE(rig.take_retired().empty());  // in doubt
  rig.send(rig.peer);                       // frame 4 waits
  EXPECT_TRUE(rig.take_work().empty());

  rig.resume(request, 2);
  const auto retired = rig.take_retired();
  ASSERT_EQ(retired.size(), 1u);
  EXPECT_TRUE(retired[0].delivered);
  const auto again = rig.take_work();
  ASSERT_EQ(again.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(again[i].lane, rig.lane);
    EXPECT_EQ(rig.header_of(again[i]).sequence, 2 + i);
  }
  EXPECT_EQ(again[0].address, rig.under_way[1].address);
  EXPECT_EQ(again[1].address, rig.under_way[2].address);
  EXPECT_EQ(rig.core.counters().frames_resent, 2u);
  EXPECT_EQ(rig.core.counters().connections_resumed, 1u);
  EXPECT_EQ(rig.failed_for(), FailReason::none);
  EXPECT_TRUE(rig.core.conserved());
}

TEST(Resume, SaysHowManyFramesCameBeforeTheEndWasFenced) {
  Session rig;
  rig.arrive(rig.lane, {.credits = 1});
  rig.complete(rig.under_way[0], outage);
  rig.arrive(rig.lane, {});  // while the queue pair is destroyed
  EXPECT_EQ(rig.take_deliveries().size(), 2u);
  const ConnectAction request = rig.take_connects().back();
  EXPECT_EQ(request.hello.received, 2u);
  rig.resume(request, 1);
  rig.arrive(rig.lane, {});  // its third
  EXPECT_EQ(rig.take_deliveries().size(), 1u);
  EXPECT_EQ(rig.failed_for(), FailReason::none);
}

TEST(Resume, ThePeersRequestIsTheNewsOfTheOutage) {
  Session rig;
  wire::Hello hello = rig.hello(other, 6);
  hello.resumes = true;
  hello.received = 3;
  rig.core.make_way(rig.now, hello, rig.out);
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::broken_wait);
  const auto fence = rig.take_connects();
  ASSERT_EQ(fence.size(), 1u);  // we need not ask
  EXPECT_EQ(fence[0].kind, Kind::drop);
  rig.core.on_request(rig.now, RequestId{7}, hello, rig.out);
  rig.settle();
  const ConnectAction accept = rig.take_connects().back();
  EXPECT_EQ(accept.kind, Kind::accept);
  EXPECT_TRUE(accept.hello.resumes);
  EXPECT_TRUE(rig.take_retired().empty());  // the request may be an old one
  rig.core.on_established(rig.now, accept.lane, rig.out);
  EXPECT_EQ(rig.take_retired().size(), 2u);  // it has both
  rig.send(rig.peer);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).sequence, 3u);
}

TEST(Resume, AnOldRequestBreaksNothing) {
  Session rig;
  wire::Hello hello = rig.hello(other);
  rig.core.on_request(rig.now, RequestId{7}, hello, rig.out);  // crossed, and never accepted
  rig.take_connects();
  wire::Hello stranger = rig.hello(lesser);
  stranger.resumes = true;
  rig.core.make_way(rig.now, stranger, rig.out);
  EXPECT_TRUE(rig.take_connects().empty());
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::ready);
}

TEST(Resume, FramesThatWereAcknowledgedAndAreNotThereFailThePeer) {
  Session rig;  // frame 0 was acknowledged
  rig.resume(rig.lose(), 0);
  EXPECT_EQ(rig.failed_for(), FailReason::frames_lost);
  EXPECT_EQ(rig.take_retired().size(), 2u);
}

TEST(Resume, FramesThatWereNeverSentFailThePeer) {
  Session rig;
  rig.resume(rig.lose(), 4);
  EXPECT_EQ(rig.failed_for(), FailReason::frames_lost);
}

TEST(Resume, AChunkGoesAgainOnceBothEndsAreFenced) {
  Session rig;
  TransferRequest put{};
  put.kind = TransferKind::put;
  put.opcode = Opcode::write;
  put.peer = rig.peer;
  put.length_bytes = 64;
  put.remote_address = 0x7000;
  rig.core.transfer(rig.now, put, rig.out);
  ASSERT_EQ(rig.take_work().size(), 1u);
  const ConnectAction request = rig.lose();
  EXPECT_TRUE(rig.take_work().empty());
  rig.resume(request, 3);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].opcode, Opcode::write);
  EXPECT_EQ(work[0].remote_address, 0x7000u);
  rig.complete(work[0]);
  ASSERT_EQ(rig.out.transfers.size(), 1u);
  EXPECT_TRUE(rig.out.transfers[0].ok);
  EXPECT_EQ(rig.core.counters().chunks_again, 1u);
  EXPECT_TRUE(rig.core.conserved());
}

TEST(Resume, AnAtomicInDoubtFailsThePeer) {
  Session rig;
  TransferRequest add{};
  add.opcode = Opcode::fetch_add;
  add.peer = rig.peer;
  add.length_bytes = 8;
  rig.core.transfer(rig.now, add, rig.out);
  ASSERT_EQ(rig.take_work().size(), 1u);
  rig.complete(rig.under_way[0], outage);
  rig.take_connects();
  EXPECT_EQ(rig.failed_for(), FailReason::atomic_in_doubt);
  ASSERT_EQ(rig.out.transfers.size(), 1u);
  EXPECT_FALSE(rig.out.transfers[0].ok);
}

TEST(Resume, WhoIsNotReachedInTimeIsLostForTheFirstReason) {
  Session rig;
  rig.lose();
  for (int i = 0; i < 40 && rig.core.state(rig.peer) != PeerState::failed; ++i) {
    rig.now = rig.now + seconds(1);
    rig.core.on_timer(rig.now, rig.out);
    rig.take_connects();
    EXPECT_TRUE(i >= 28 || rig.core.state(rig.peer) != PeerState::failed) << i;
  }
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].reason, FailReason::send_failed);
  EXPECT_EQ(failures[0].completion, outage);
}

TEST(Resume, WhoIsGoneIsLostAtOnce) {
  Session rig;
  rig.core.on_disconnected(rig.now, rig.lane, rig.out);
  const ConnectAction request = rig.take_connects().back();
  EXPECT_EQ(rig.failed_for(), FailReason::none);
  rig.core.on_connect_failed(rig.now, request.lane, FailReason::connect_refused, rig.out);
  EXPECT_EQ(rig.failed_for(), FailReason::vanished);
}

TEST(Resume, NothingIsKeptForTheDead) {
  for (const bool broken : {false, true}) {
    Session rig(2);
    if (broken) rig.lose();
    rig.send(rig.peer);
    rig.core.give_up_dead(rig.now, rig.peer, rig.out);
    rig.settle();
    EXPECT_EQ(rig.take_failures().size(), 1u) << broken;
    EXPECT_EQ(rig.core.state(rig.peer), PeerState::failed);
    EXPECT_EQ(rig.take_retired().size(), 3u) << "frames, " << broken;
    EXPECT_EQ(rig.core.counters().connections_open, 0u);
    EXPECT_EQ(rig.core.counters().credits_out, 0u);
    EXPECT_TRUE(rig.core.conserved());
    rig.core.give_up_dead(rig.now, rig.peer, rig.out);
    EXPECT_TRUE(rig.take_failures().empty());
  }
}

TEST(Resume, WhoHasGivenUsUpIsLost) {
  Session rig;
  const ConnectAction request = rig.lose();
  rig.core.on_rejected(rig.now, request.lane, wire::Reject::over, rig.out);
  EXPECT_EQ(rig.failed_for(), FailReason::send_failed);
}

TEST(Resume, WhatWasSentWrongIsNoOutage) {
  for (const CompletionStatus status :
       {CompletionStatus::rem_access_err, CompletionStatus::loc_prot_err,
        CompletionStatus::loc_len_err, CompletionStatus::general_err}) {
    Session rig;
    rig.complete(rig.under_way[0], status);
    EXPECT_EQ(rig.core.state(rig.peer), PeerState::failed);
  }
}

TEST(Resume, AConnectionThatNeverCarriesAnythingIsGivenUp) {
  Session rig;
  int broke = 0;
  for (; broke < 20 && rig.core.state(rig.peer) != PeerState::failed; ++broke) {
    rig.complete(rig.under_way[0], outage);
    const auto actions = rig.take_connects();
    if (rig.core.state(rig.peer) == PeerState::failed) break;
    rig.resume(actions.back(), 1);
    rig.under_way = rig.take_work();
  }
  EXPECT_GT(broke, 4);
  EXPECT_LT(broke, 20);
  EXPECT_EQ(rig.failed_for(), FailReason::send_failed);
}

TEST(Resume, FramesThatOvertookAnAnswerAreNotDeliveredAgain) {
  rig::Rig rig(Session::resuming());
  const PeerId peer = rig.core.add_peer(other);
  rig.send(peer);
  const ConnectAction request = rig.take_connects().at(0);
  rig.arrive(request.lane, {});
  EXPECT_EQ(rig.take_deliveries().size(), 1u);
  rig.core.on_connect_failed(rig.now, request.lane, FailReason::connect_timeout, rig.out);
  const ConnectAction again = rig.take_connects().back();
  EXPECT_EQ(again.kind, Kind::connect);
  EXPECT_TRUE(again.hello.resumes);
  EXPECT_EQ(again.hello.received, 1u);
}

TEST(Resume, AGoodbyeInDoubtThatArrivedEndsTheSession) {
  Session rig;
  for (const WorkRequest& work : rig.under_way) rig.complete(work);
  rig.core.close(rig.now, rig.peer, rig.out);
  const auto goodbye = rig.take_work();
  ASSERT_EQ(goodbye.size(), 1u);
  rig.complete(goodbye[0], outage);
  const ConnectAction request = rig.take_connects().back();
  ASSERT_EQ(request.kind, Kind::connect);
  EXPECT_FALSE(rig.core.closed(rig.peer));
  rig.core.on_rejected(rig.now, request.lane, wire::Reject::over, rig.out);
  EXPECT_TRUE(rig.core.closed(rig.peer));
  EXPECT_EQ(rig.failed_for(), FailReason::none);
}

TEST(Resume, WhoseGoodbyeArrivedHasNothingToResume) {
  Session rig;
  for (const WorkRequest& work : rig.under_way) rig.complete(work);
  rig.arrive(rig.lane, {.kind = wire::FrameKind::goodbye});
  rig.take_connects();
  wire::Hello hello = rig.hello(other);
  hello.resumes = true;
  hello.received = 3;
  rig.core.make_way(rig.now, hello, rig.out);
  rig.core.on_request(rig.now, RequestId{7}, hello, rig.out);
  rig.settle();
  const auto actions = rig.take_connects();
  ASSERT_FALSE(actions.empty());
  EXPECT_EQ(actions.back().kind, Kind::reject);
  EXPECT_EQ(actions.back().reason, wire::Reject::over);
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::closed);
  EXPECT_EQ(rig.failed_for(), FailReason::none);
}

// The numbers of frames wrap, in a session of four thousand million.
TEST(Resume, NumbersGoOnBehindTheLast) {
  Session rig(0);
  Lane& lane = (rig.core.*inner(LanesOf{}))[rig.lane];
  lane.tx_sequence = lane.rx_sequence = rig.sequence = 0xfffffffe;
  for (int i = 0; i < 3; ++i) rig.send(rig.peer, 8, false, true);
  rig.pump();
  rig.under_way = rig.take_work();
  ASSERT_EQ(rig.under_way.size(), 3u);
  EXPECT_EQ(rig.header_of(rig.under_way[2]).sequence, 0u);
  for (int i = 0; i < 3; ++i) rig.arrive(rig.lane, {});
  const ConnectAction request = rig.lose();
  EXPECT_EQ(request.hello.received, 1u);
  rig.resume(request, 0);  // it has the first two
  EXPECT_EQ(rig.failed_for(), FailReason::none);
  EXPECT_EQ(rig.take_retired().size(), 2u);
  rig.pump();
  const auto again = rig.take_work();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(rig.header_of(again[0]).sequence, 0u);
  rig.take_deliveries();
  rig.arrive(rig.lane, {});
  EXPECT_EQ(rig.take_deliveries().size(), 1u);
}

// The side that accepted may have been sent frames before it gives the attempt up.
TEST(Resume, WhatCameOverAnAttemptThatWasGivenUpCounts) {
  Session rig(0);
  rig.core.on_disconnected(rig.now, rig.lane, rig.out);
  rig.core.on_rejected(rig.now, rig.take_connects().back().lane, wire::Reject::crossed, rig.out);
  wire::Hello hello = rig.hello(other, 6);
  hello.resumes = true;
  hello.received = 1;
  rig.core.on_request(rig.now, RequestId{7}, hello, rig.out);
  rig.settle();
  const LaneId accepted = rig.take_connects().back().lane;
  EXPECT_FALSE(rig.core.hold(rig.now, rig.peer, false, rig.out));  // it is as good as ready
  ASSERT_TRUE(rig.core.hold(rig.now, rig.peer, true, rig.out));
  rig.arrive(accepted, {});  // as the queue pair is being destroyed
  EXPECT_EQ(rig.take_deliveries().size(), 1u);
  rig.take_connects();
  EXPECT_TRUE(rig.core.is_held(rig.peer));
  EXPECT_EQ(rig.core.received(rig.peer), 1u);
}

// The peer may be in a session that began when the last one had ended; we saw nothing come of it.
TEST(Resume, WhoBeginsASessionKnowsThatTheLastOneIsOver) {
  Session rig(0);
  rig.arrive(rig.lane, {.kind = wire::FrameKind::goodbye});
  rig.core.on_disconnected(rig.now, rig.lane, rig.out);
  rig.take_connects();
  ASSERT_EQ(rig.core.state(rig.peer), PeerState::closed);
  wire::Hello hello = rig.hello(other, 6);
  hello.resumes = true;
  rig.core.on_request(rig.now, RequestId{7}, hello, rig.out);
  rig.settle();
  EXPECT_EQ(rig.take_connects().back().reason, wire::Reject::over);

  rig.core.on_request(rig.now, RequestId{8}, rig.hello(other), rig.out);
  rig.settle();
  const LaneId accepted = rig.take_connects().back().lane;
  rig.core.on_connect_failed(rig.now, accepted, FailReason::connect_timeout, rig.out);
  rig.take_connects();
  hello.attempt = rig.hello(other).attempt;
  rig.core.on_request(rig.now, RequestId{9}, hello, rig.out);
  rig.settle();
  EXPECT_EQ(rig.take_connects().back().kind, Kind::accept);
}

// The asker may find that the acceptance was withdrawn.
TEST(Resume, ASpoiltAttemptIsNoFailure) {
  Session rig;
  const ConnectAction request = rig.lose();
  rig.core.on_connect_failed(rig.now, request.lane, FailReason::connect_spoilt, rig.out);
  EXPECT_EQ(rig.failed_for(), FailReason::none);
  rig.now = rig.core.next_deadline();
  rig.core.on_timer(rig.now, rig.out);
  EXPECT_EQ(rig.take_connects().back().kind, Kind::connect);
}

TEST(Resume, AnAcceptedPairThatBreaksIsASpoiltAttempt) {
  Session rig;
  rig.core.on_rejected(rig.now, rig.lose().lane, wire::Reject::crossed, rig.out);
  wire::Hello hello = rig.hello(other, 6);
  hello.resumes = true;
  hello.received = 1;
  rig.core.on_request(rig.now, RequestId{7}, hello, rig.out);
  rig.settle();
  const LaneId accepted = rig.take_connects().back().lane;
  rig.core.on_lane_error(rig.now, accepted, rig.out);
  EXPECT_EQ(rig.failed_for(), FailReason::none);
  EXPECT_EQ(rig.take_connects().back().kind, Kind::connect);
}

// A failure that comes while the queue pair is being destroyed is told once that is done.
TEST(Resume, AFenceIsOneWhateverComesMeanwhile) {
  Session rig;
  rig.complete(rig.under_way.at(0), outage);
  rig.arrive_bytes(rig.lane, std::vector<std::byte>(4));  // no frame
  EXPECT_EQ(rig.failed_for(), FailReason::none);
  int drops = 0;
  for (const ConnectAction& action : rig.take_connects()) drops += action.kind == Kind::drop ? 1 : 0;
  EXPECT_EQ(drops, 1);
  EXPECT_EQ(rig.failed_for(), FailReason::bad_frame);
}

// A request that lost its crossing may come when the connection was made, and used.
TEST(Resume, ARequestFromBeforeWhatWasAcknowledgedIsStale) {
  Session rig;
  for (const WorkRequest& work : rig.under_way) rig.complete(work);  // the peer has three
  wire::Hello hello = rig.hello(other, 6);
  hello.resumes = true;
  hello.received = 1;
  rig.core.make_way(rig.now, hello, rig.out);
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::ready);
  rig.core.on_request(rig.now, RequestId{7}, hello, rig.out);
  EXPECT_EQ(rig.take_connects().back().reason, wire::Reject::crossed);
}

// What such a request told counts for nothing before the peer confirms the connection.
TEST(Resume, WhatAStaleRequestToldIsForgotten) {
  Session rig;  // two under way
  wire::Hello hello = rig.hello(other, 6);
  hello.resumes = true;
  hello.received = 1;  // both arrive later
  rig.core.make_way(rig.now, hello, rig.out);
  rig.take_connects();
  rig.core.on_request(rig.now, RequestId{7}, hello, rig.out);
  rig.settle();
  const LaneId accepted = rig.take_connects().back().lane;
  rig.core.on_connect_failed(rig.now, accepted, FailReason::connect_timeout, rig.out);
  rig.resume(rig.take_connects().back(), 3);
  EXPECT_EQ(rig.failed_for(), FailReason::none);
  EXPECT_EQ(rig.take_retired().size(), 2u);
}

// The frames in doubt may have arrived before the peer gave the session up.
TEST(Resume, NothingInDoubtIsSentAgainToAPeerThatHasEndedTheSession) {
  Session rig;
  const ConnectAction request = rig.lose();
  rig.core.on_rejected(rig.now, request.lane, wire::Reject::over, rig.out);
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_TRUE(failures[0].lost_work);
}

// We agreed to part, and do not know whether the peer has heard so. It asks for a connection as if
// there had been none: it has.
TEST(Resume, WhoAsksAnewDoesNotWaitForOurRequestToResume) {
  Session rig;
  for (const WorkRequest& work : rig.under_way) rig.complete(work);
  rig.arrive(rig.lane, {.kind = wire::FrameKind::part});
  ASSERT_EQ(rig.core.state(rig.peer), PeerState::parted);
  rig.core.on_disconnected(rig.now, rig.lane, rig.out);
  rig.take_connects();
  ASSERT_EQ(rig.core.state(rig.peer), PeerState::connecting);
  ASSERT_LT(rig::self, other);  // else our request is void in any case
  rig.core.on_request(rig.now, RequestId{7}, rig.hello(other), rig.out);
  EXPECT_EQ(rig.take_connects().back().kind, Kind::accept);
  EXPECT_EQ(rig.failed_for(), FailReason::none);
}

TEST(Resume, AGoodbyeThatWasLostIsSaidAgain) {
  Session rig;
  for (const WorkRequest& work : rig.under_way) rig.complete(work);
  rig.core.close(rig.now, rig.peer, rig.out);
  rig.complete(rig.take_work().at(0), outage);
  rig.resume(rig.take_connects().back(), 3);
  rig.core.close(rig.now, rig.peer, rig.out);
  const auto goodbye = rig.take_work();
  ASSERT_EQ(goodbye.size(), 1u);
  EXPECT_EQ(rig.header_of(goodbye[0]).kind, wire::FrameKind::goodbye);
  EXPECT_EQ(rig.header_of(goodbye[0]).sequence, 3u);
}

TEST(Resume, AConnectionToOurselvesIsMadeAgain) {
  Session rig;
  const PeerId own = rig.core.add_peer(rig::self);
  rig.send(own);
  const ConnectAction loop = rig.take_connects().back();
  rig.core.on_established(rig.now, loop.lane, rig.out);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  rig.complete(work[0], outage);
  ConnectAction again = rig.take_connects().back();
  EXPECT_EQ(again.kind, Kind::loop);
  // The port is still down: later once more.
  rig.core.on_connect_failed(rig.now, again.lane, FailReason::connect_unreachable, rig.out);
  EXPECT_EQ(rig.take_connects().size(), 1u);  // it is dropped
  EXPECT_TRUE(rig.out.failures.empty());
  rig.now = rig.now + rig.core.config().attempt_timeout * 3 / 2;
  rig.core.on_timer(rig.now, rig.out);
  again = rig.take_connects().back();
  EXPECT_EQ(again.kind, Kind::loop);
  rig.core.on_established(rig.now, again.lane, rig.out);
  const auto resent = rig.take_work();
  ASSERT_EQ(resent.size(), 1u);
  EXPECT_EQ(rig.header_of(resent[0]).sequence, 0u);
}

TEST(Resume, TellsOfTheFirstAndTheLastConnectionOfAnOutage) {
  Session rig;
  const ConnectAction request = rig.lose();
  ASSERT_EQ(rig.out.outages.size(), 1u);
  EXPECT_FALSE(rig.out.outages[0].over);
  EXPECT_EQ(rig.out.outages[0].completion, outage);
  rig.now = rig.now + milliseconds(1500);
  rig.resume(request, 3);
  ASSERT_EQ(rig.out.outages.size(), 2u);
  EXPECT_TRUE(rig.out.outages[1].over);
  EXPECT_EQ(rig.out.outages[1].took, milliseconds(1500));
}

// ---- carrying frames over another rail ----

Core::Config among_rails() {
  Core::Config config = Session::resuming();
  config.among_rails = true;
  return config;
}

std::vector<SendSlot*> give_away(Session& rig, std::uint32_t received) {
  std::vector<SendSlot*> frames;
  rig.core.give_away(rig.now, rig.peer, received, rig.out,
                     [&](SendSlot* slot) { frames.push_back(slot); });
  return frames;
}

TEST(GiveAway, WhatThePeerLacksGoesOverAnotherRail) {
  Session rig(3, among_rails());
  rig.lose();
  rig.send(rig.peer);  // frame 4 waits
  ASSERT_TRUE(rig.core.hold(rig.now, rig.peer, true, rig.out));
  rig.settle();
  EXPECT_EQ(rig.core.received(rig.peer), 0u);
  const auto frames = give_away(rig, 2);
  ASSERT_EQ(frames.size(), 3u);  // frames 2, 3 and 4
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(frames[0]->frame), rig.under_way[1].address);
  const auto retired = rig.take_retired();
  ASSERT_EQ(retired.size(), 1u);
  EXPECT_TRUE(retired[0].delivered);
  EXPECT_EQ(rig.send(rig.peer), Status::elsewhere);
  EXPECT_EQ(rig.core.send_frame(rig.now, rig.peer, frames[0], rig.out), Status::elsewhere);

  rig.take_connects();
  rig.core.let_go(rig.now, rig.peer, rig.out);
  const ConnectAction again = rig.take_connects().back();
  EXPECT_EQ(again.kind, Kind::connect);
  rig.resume(again, 2);  // the numbers go on where the peer is
  EXPECT_EQ(rig.failed_for(), FailReason::none);
  EXPECT_EQ(rig.send(rig.peer), Status::ok);
  rig.pump();
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(rig.header_of(work[0]).sequence, 2u);
  EXPECT_TRUE(rig.core.conserved());
}

TEST(GiveAway, AHeldSessionIsNotTakenUp) {
  Session rig(2, among_rails());
  ASSERT_TRUE(rig.core.hold(rig.now, rig.peer, true, rig.out));  // though nothing broke here
  rig.settle();
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::broken_hold);
  rig.take_connects();
  wire::Hello hello = rig.hello(other, 6);
  hello.resumes = true;
  hello.received = 1;
  rig.core.on_request(rig.now, RequestId{7}, hello, rig.out);
  const ConnectAction refusal = rig.take_connects().back();
  EXPECT_EQ(refusal.kind, Kind::reject);
  EXPECT_EQ(refusal.reason, wire::Reject::closing);
  rig.core.let_go(rig.now, rig.peer, rig.out);
  EXPECT_EQ(rig.take_connects().back().kind, Kind::connect);
}

TEST(GiveAway, NobodyHoldsForLongerThanAnAttempt) {
  Session rig(2, among_rails());
  rig.lose();
  ASSERT_TRUE(rig.core.hold(rig.now, rig.peer, false, rig.out));
  rig.settle();
  rig.take_connects();
  rig.out.links.clear();
  rig.now = rig.now + rig.core.config().attempt_timeout;  // and the peer has not answered
  ASSERT_LE(rig.core.next_deadline(), rig.now);
  rig.core.on_timer(rig.now, rig.out);
  ASSERT_EQ(rig.out.links.size(), 1u);
  EXPECT_EQ(rig.out.links[0].kind, LinkNews::Kind::waited);
  EXPECT_FALSE(rig.core.is_held(rig.peer));
  EXPECT_TRUE(give_away(rig, 1).empty());  // an answer that comes now is too late
  const ConnectAction again = rig.take_connects().back();
  EXPECT_EQ(again.kind, Kind::connect);
  rig.resume(again, 2);
  EXPECT_EQ(rig.failed_for(), FailReason::none);
}

// An answer that takes longer than an attempt comes in time some day.
TEST(GiveAway, AHoldInVainIsFollowedByALongerOne) {
  Core::Config config = among_rails();
  config.shrink_after = {};  // then all deadlines are of connections
  config.peer_timeout = seconds(28);
  Session rig(2, config);
  const Duration attempt = rig.core.config().attempt_timeout;
  rig.lose();
  const auto held_for = [&] {
    EXPECT_TRUE(rig.core.hold(rig.now, rig.peer, false, rig.out));
    rig.settle();
    const Duration time = rig.core.next_deadline() - rig.now;
    rig.now = rig.core.next_deadline();
    rig.core.on_timer(rig.now, rig.out);
    EXPECT_FALSE(rig.core.is_held(rig.peer));
    return time;
  };
  for (const int halves : {2, 4, 7, 7}) EXPECT_EQ(held_for(), attempt / 2 * halves);
  rig.resume(rig.take_connects().back(), 2);
  rig.now = rig.now + attempt;
  EXPECT_TRUE(rig.core.hold(rig.now, rig.peer, true, rig.out));
  rig.take_connects();
  EXPECT_EQ(held_for(), attempt) << "of another outage";
}

// The peer is given up in time all the same.
TEST(GiveAway, AHoldEndsWithTheTimeThatThereIsForThePeer) {
  Core::Config config = among_rails();
  config.shrink_after = {};
  config.repeats_for = seconds(3);
  Session rig(2, config);
  const Time end = rig.now + config.peer_timeout + Duration{-config.repeats_for.ns};
  rig.lose();
  while (rig.core.hold(rig.now, rig.peer, false, rig.out)) {
    rig.settle();
    EXPECT_LE(rig.core.next_deadline(), end);
    rig.now = rig.core.next_deadline();
    rig.core.on_timer(rig.now, rig.out);
  }
  EXPECT_EQ(rig.failed_for(), FailReason::send_failed);
}

// ---- while a connection parts ----

struct Parts : Session {
  explicit Parts(int frames) : Session(frames, with_one_place()) {}

  static Core::Config with_one_place() {
    Core::Config config = among_rails();
    config.connections_max = 1;
    return config;
  }
  // Another peer wants the place, so ours is asked to part.
  void ask() {
    send(core.add_peer(lesser));
    EXPECT_EQ(core.state(peer), PeerState::parting);
  }
  // The peer asks, and we agree.
  void agree() {
    arrive(lane, {.kind = wire::FrameKind::part});
    EXPECT_EQ(core.state(peer), PeerState::parted);
  }
};

// Nobody has parted: the question was not answered, or has not arrived. What waits for the next
// connection goes away, too; the question does not.
TEST(GiveAway, WhoAskedToPartGivesItsFramesAway) {
  Parts rig(1);
  rig.ask();
  rig.send(rig.peer);
  rig.lose();
  ASSERT_TRUE(rig.core.hold(rig.now, rig.peer, false, rig.out));
  rig.settle();
  EXPECT_EQ(give_away(rig, 1).size(), 2u);
  EXPECT_EQ(rig.failed_for(), FailReason::none);
}

TEST(GiveAway, WhoAgreedToPartGivesItsFramesAwayOnceAnAttemptCameToNothing) {
  Parts rig(1);
  rig.agree();
  rig.send(rig.peer);
  rig.lose();
  EXPECT_FALSE(rig.core.hold(rig.now, rig.peer, false, rig.out))
      << "most likely the peer has parted";
  rig.now = rig.now + rig.core.config().attempt_timeout;
  ASSERT_TRUE(rig.core.hold(rig.now, rig.peer, false, rig.out));
  rig.settle();
  EXPECT_EQ(give_away(rig, 1).size(), 2u);
  EXPECT_EQ(rig.failed_for(), FailReason::none);
}

// The side that asks is in the session, and so has no goodbye.
TEST(GiveAway, WhoPartsHoldsTheSessionForAPeerThatAsks) {
  for (const bool asks : {true, false}) {
    Parts rig(1);
    asks ? rig.ask() : rig.agree();
    ASSERT_TRUE(rig.core.hold(rig.now, rig.peer, true, rig.out));
    rig.take_connects();
    EXPECT_TRUE(rig.core.is_held(rig.peer));
    EXPECT_EQ(give_away(rig, 1).size(), 1u);
  }
}

TEST(GiveAway, WhoHasPartedSaysWhatHadArrived) {
  Parts rig(0);
  rig.arrive(rig.lane, {});
  rig.ask();
  EXPECT_EQ(rig.core.received_before_end(rig.peer), std::nullopt);
  rig.arrive(rig.lane, {.kind = wire::FrameKind::goodbye});
  ASSERT_EQ(rig.core.state(rig.peer), PeerState::idle);
  EXPECT_FALSE(rig.core.hold(rig.now, rig.peer, true, rig.out));
  EXPECT_EQ(rig.core.received_before_end(rig.peer), 2u) << "with the goodbye";
  rig.core.on_request(rig.now, RequestId{7}, rig.hello(other, 4), rig.out);
  EXPECT_EQ(rig.core.received_before_end(rig.peer), std::nullopt) << "the peer begins another one";
}

TEST(GiveAway, WhoHasGivenUpSaysWhatHadArrived) {
  Session rig(1, among_rails());
  rig.arrive(rig.lane, {});
  rig.lose();
  rig.wait_in_vain();
  EXPECT_EQ(rig.core.received_before_end(rig.peer), 1u);
}

TEST(GiveAway, WhoLeavesGivesNothingAway) {
  Session rig(1, among_rails());
  rig.core.close(rig.now, rig.peer, rig.out);
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::said);
  EXPECT_FALSE(rig.core.hold(rig.now, rig.peer, true, rig.out));
  rig.lose();
  EXPECT_FALSE(rig.core.hold(rig.now, rig.peer, true, rig.out));
}

// The peer took our acceptance for a connection, whose confirmation we never had.
TEST(GiveAway, ASessionThatWeDoNotKnowOfHasBroughtNothing) {
  rig::Rig rig(among_rails());
  rig.core.on_request(rig.now, RequestId{7}, rig.hello(other), rig.out);
  rig.settle();
  const LaneId accepted = rig.take_connects().back().lane;
  const PeerId peer = rig.core.find(other);
  rig.core.on_connect_failed(rig.now, accepted, FailReason::connect_timeout, rig.out);
  rig.take_connects();
  ASSERT_EQ(rig.core.state(peer), PeerState::closed);
  EXPECT_FALSE(rig.core.hold(rig.now, peer, false, rig.out)) << "nobody asked";
  ASSERT_TRUE(rig.core.hold(rig.now, peer, true, rig.out));
  EXPECT_TRUE(rig.core.is_held(peer));
  EXPECT_EQ(rig.core.received(peer), 0u);
  rig.core.give_away(rig.now, peer, 0, rig.out, [](SendSlot*) { FAIL(); });
  rig.core.let_go(rig.now, peer, rig.out);
  const ConnectAction again = rig.take_connects().back();
  EXPECT_EQ(again.kind, Kind::connect);
  EXPECT_TRUE(again.hello.resumes);
  EXPECT_TRUE(rig.core.conserved());
}

// It was never sent, and nobody is in a session.
TEST(GiveAway, WhatWaitsForAFirstConnectionMayGoOverAnotherRail) {
  rig::Rig rig(among_rails());
  const PeerId peer = rig.core.add_peer(other);
  std::size_t taken = 0;
  const auto take = [&] {
    taken = 0;
    rig.core.take_unsent(peer, [&](SendSlot*) { ++taken; });
    return taken;
  };
  rig.send(peer, 600);
  rig.send(peer, 600);
  rig.now = rig.now + rig.core.config().attempt_timeout * 2;
  rig.core.on_timer(rig.now, rig.out);
  ASSERT_EQ(rig.out.links.size(), 1u);
  EXPECT_EQ(rig.out.links[0].kind, LinkNews::Kind::out);
  EXPECT_EQ(take(), 2u);
  EXPECT_EQ(rig.core.pending_frames(), 0u);
  EXPECT_TRUE(rig.core.conserved());

  Session resumes(1, among_rails());
  resumes.lose();
  resumes.send(resumes.peer);
  resumes.core.take_unsent(resumes.peer, [](SendSlot*) { FAIL() << "the session has it"; });
}

TEST(GiveAway, OldNewsOfABreakEndsNoConnection) {
  Session rig(2, among_rails());
  EXPECT_FALSE(rig.core.hold(rig.now, rig.peer, false, rig.out));
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::ready);
}

TEST(GiveAway, WhatPeersSayOfItWakesTheEventThread) {
  Session rig(1, among_rails());
  EXPECT_TRUE(rig.core.send_handover(rig.peer, {HandoverMessage::Kind::ask, 1, 7, 3}, rig.out));
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_TRUE(work[0].solicited);
  EXPECT_EQ(rig.header_of(work[0]).kind, wire::FrameKind::handover);
  rig.lose();
  EXPECT_FALSE(rig.core.send_handover(rig.peer, {}, rig.out));
}

TEST(GiveAway, NothingIsGivenAwayUnheldOrByAnImpossibleCount) {
  Session rig(2, among_rails());
  rig.lose();
  EXPECT_TRUE(give_away(rig, 1).empty());
  EXPECT_EQ(rig.failed_for(), FailReason::none);
  ASSERT_TRUE(rig.core.hold(rig.now, rig.peer, true, rig.out));
  rig.settle();
  EXPECT_TRUE(give_away(rig, 9).empty());
  EXPECT_EQ(rig.failed_for(), FailReason::frames_lost);
}

TEST(GiveAway, APeerGivenUpTakesNothingUntilItIsThereAgain) {
  Session rig(2, among_rails());
  rig.lose();
  rig.core.hold(rig.now, rig.peer, true, rig.out);
  rig.settle();
  give_away(rig, 2);
  EXPECT_FALSE(rig.wait_in_vain().lost_work);
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::closed);
  EXPECT_EQ(rig.send(rig.peer), Status::elsewhere);
}

// ---- a port that goes down ----

struct PortDown : ::testing::Test {
  static std::vector<PeerId> lost(Session& rig) {
    std::vector<PeerId> lost;
    for (const LinkNews& news : std::exchange(rig.out.links, {})) {
      if (news.kind != LinkNews::Kind::down) continue;
      EXPECT_EQ(news.reason, FailReason::port_down);
      lost.push_back(news.peer);
    }
    return lost;
  }
};

TEST_F(PortDown, AmongRailsItsLanesAreLostAtOnce) {
  Session rig(2, among_rails());
  const PeerId idle = rig.core.peer_of(rig.accept(lesser));
  const PeerId asked = rig.core.add_peer({1, 40});
  EXPECT_EQ(rig.send(asked), Status::ok);
  const LaneId attempt = rig.take_connects().at(0).lane;
  rig.core.on_port_down(rig.now, rig.out);
  EXPECT_EQ(lost(rig), (std::vector{rig.peer, idle}));
  const auto actions = rig.take_connects();
  ASSERT_EQ(actions.size(), 2u) << "they are fenced; nobody can be asked now";
  for (const ConnectAction& action : actions) EXPECT_EQ(action.kind, Kind::drop);
  EXPECT_EQ(rig.core.state(asked), PeerState::connecting);
  EXPECT_NE(attempt, actions[0].lane);
  EXPECT_TRUE(rig.take_retired().empty());  // in doubt
  rig.core.on_port_down(rig.now, rig.out);  // a link that flaps
  EXPECT_TRUE(lost(rig).empty());

  rig.now = rig.now + rig.core.config().attempt_timeout;
  rig.core.on_timer(rig.now, rig.out);
  const auto again = rig.take_connects();
  const auto to_peer = std::find_if(again.begin(), again.end(), [&](const ConnectAction& action) {
    return action.kind == Kind::connect && action.peer == rig.peer;
  });
  ASSERT_NE(to_peer, again.end());
  rig.resume(*to_peer, 1);
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::ready);
  EXPECT_EQ(rig.failed_for(), FailReason::none);
}

TEST_F(PortDown, ALinkThatFlapsCostsNoPeer) {
  Session rig(0, among_rails());
  for (int times = 0; times < 20; ++times) {
    rig.core.on_port_down(rig.now, rig.out);
    EXPECT_EQ(rig.take_connects().size(), 1u);
    rig.now = rig.now + rig.core.config().attempt_timeout;
    rig.core.on_timer(rig.now, rig.out);
    const ConnectAction again = rig.take_connects().back();
    ASSERT_EQ(again.kind, Kind::connect);
    rig.resume(again, 1);
    ASSERT_EQ(rig.core.state(rig.peer), PeerState::ready);
  }
  EXPECT_EQ(rig.failed_for(), FailReason::none);
}

TEST_F(PortDown, WithoutOtherRailsTheAdapterRepeats) {
  Session rig;
  rig.core.on_port_down(rig.now, rig.out);
  EXPECT_TRUE(rig.take_connects().empty());
  EXPECT_EQ(rig.core.state(rig.peer), PeerState::ready);
}

// ---- doing transfers over another rail ----

std::vector<std::uint64_t> withdraw(Session& rig) {
  std::vector<std::uint64_t> tokens;
  rig.core.withdraw(rig.now, rig.peer, rig.out,
                    [&](const TransferRequest& request) { tokens.push_back(request.token); });
  EXPECT_TRUE(rig.core.conserved());
  return tokens;
}

TransferRequest transfer(const Session& rig, Opcode opcode, std::uint64_t token,
                         bool movable = true) {
  TransferRequest request{.peer = rig.peer, .length_bytes = 8, .token = token, .opcode = opcode};
  request.kind = opcode == Opcode::write ? TransferKind::put : TransferKind::get;
  request.movable = movable;
  return request;
}

using Tokens = std::vector<std::uint64_t>;

TEST(Withdraw, AGetGoesElsewhereOnceOurEndIsFenced) {
  Session rig(0, among_rails());
  rig.core.transfer(rig.now, transfer(rig, Opcode::read, 1), rig.out);
  rig.core.transfer(rig.now, transfer(rig, Opcode::read, 2, false), rig.out);
  rig.under_way = rig.take_work();
  EXPECT_EQ(withdraw(rig), Tokens{}) << "the adapter has them";
  rig.lose();
  EXPECT_EQ(withdraw(rig), Tokens{1});
  EXPECT_EQ(withdraw(rig), Tokens{});
  EXPECT_TRUE(rig.out.transfers.empty()) << "its end is reported by who has it now";
}

// A late packet must not overwrite what comes after.
TEST(Withdraw, APutUnderWayGoesElsewhereOnceBothEndsHaveLetItGo) {
  Session rig(0, among_rails());
  rig.core.transfer(rig.now, transfer(rig, Opcode::write, 1), rig.out);
  rig.under_way = rig.take_work();
  rig.lose();
  rig.core.transfer(rig.now, transfer(rig, Opcode::write, 2), rig.out);
  EXPECT_EQ(withdraw(rig), Tokens{2}) << "nothing of it was ever sent";
  ASSERT_TRUE(rig.core.hold(rig.now, rig.peer, true, rig.out));
  rig.settle();
  EXPECT_EQ(withdraw(rig), Tokens{}) << "the peer may not know yet";
  give_away(rig, 1);
  EXPECT_EQ(withdraw(rig), Tokens{1});
}

TEST(Withdraw, APutThatGoesAgainOnTheNextConnectionStaysThere) {
  Session rig(0, among_rails());
  rig.core.transfer(rig.now, transfer(rig, Opcode::write, 1), rig.out);
  rig.under_way = rig.take_work();
  rig.resume(rig.lose(), 1);
  const auto again = rig.take_work();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(withdraw(rig), Tokens{});
  rig.complete(again[0]);
  ASSERT_EQ(rig.out.transfers.size(), 1u);
  EXPECT_TRUE(rig.out.transfers[0].ok);
}

TEST(Withdraw, WhoIsGivenUpSaysWhatIsLost) {
  for (const Opcode opcode : {Opcode::read, Opcode::write, Opcode::fetch_add}) {
    Session rig(0, among_rails());
    rig.core.transfer(rig.now, transfer(rig, Opcode::read, 1), rig.out);
    if (opcode == Opcode::write) rig.core.transfer(rig.now, transfer(rig, opcode, 2), rig.out);
    rig.under_way = rig.take_work();
    rig.lose();
    if (opcode == Opcode::fetch_add) rig.core.transfer(rig.now, transfer(rig, opcode, 3), rig.out);
    const Failure failure = rig.wait_in_vain();
    EXPECT_TRUE(failure.lost_work);
    EXPECT_EQ(failure.in_doubt, opcode == Opcode::write);
    EXPECT_EQ(failure.lost_atomics, opcode == Opcode::fetch_add);
  }
}

}  // namespace
}  // namespace weir
