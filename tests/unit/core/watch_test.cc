// The watch over lanes: what stalls is noticed, who is silent is asked, and both in time.
#include "transport/core/watch.h"

#include <gtest/gtest.h>

#include "tests/unit/core/rooms.h"

namespace weir {
namespace {

using rig::other;
using rig::Rig;
using rig::Rooms;

TEST(Stall, IsNoticedAfterThePeerTimeoutAndNotByASpinningTimer) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 8);
  rig.take_work();
  rig.send(peer, 600, false, true);
  const Time posted = rig.now;
  int looks = 0;
  while (rig.core.state(peer) == PeerState::ready && looks < 100) {
    const Time deadline = rig.core.next_deadline();
    ASSERT_NE(deadline, Time::never());
    rig.now = std::max(rig.now, deadline);
    rig.core.on_timer(rig.now, rig.out);
    if (rig.core.state(peer) != PeerState::ready) break;
    ASSERT_GT(rig.core.next_deadline(), rig.now);  // else the event thread spins
    ++looks;
  }
  EXPECT_LE(looks, 10);
  EXPECT_EQ(rig.take_failures().at(0).reason, FailReason::stalled);
  EXPECT_GE(rig.now - posted, seconds(25));
  EXPECT_LE(rig.now - posted, seconds(30));
}

// The next look of the watch; the box is taken as an engine would.
std::vector<WorkRequest> look(Rig& rig) {
  EXPECT_NE(rig.core.next_deadline(), Time::never());
  rig.now = std::max(rig.now, rig.core.next_deadline());
  while (rig.core.next_deadline() <= rig.now) rig.core.on_timer(rig.now, rig.out);
  rig.settle();
  return rig.take_work();
}

TEST(Stall, NothingToLookAtIsNoReasonToWake) {
  Rig rig;
  EXPECT_EQ(rig.core.next_deadline(), Time::never());
  const PeerId peer = rig.core.add_peer(other);
  rig.core.on_disconnected(rig.now, rig.connect(peer), rig.out);
  EXPECT_EQ(rig.core.next_deadline(), Time::never());
}

// Nothing is watched of lanes that are only asked for, and yet a process with very many of them
// does not look at all of them at each wake-up: a look finds out.
TEST(Stall, AWakeUpLooksAtAFewHundredLanesAtMost) {
  const auto deadline_with = [](std::uint32_t lanes) {
    Rooms rooms;
    Watch watch(rooms.config, rooms.peers, rooms.lanes, rooms.sender, rooms.connector);
    const Peer& peer = rooms.add(other);
    for (std::uint32_t i = 0; i < lanes; ++i) rooms.lanes.make(peer.id, LaneUse::frames);
    return watch.next_look();
  };
  EXPECT_EQ(deadline_with(256), Time::never());
  EXPECT_NE(deadline_with(257), Time::never());
}

TEST(Stall, WorkAfterALongTimeHasItsPatience) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 100);
  rig.take_work();
  rig.now = rig.now + seconds(3600);  // and the event thread slept through it
  rig.send(peer, 600, false, true);
  rig.take_work();
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(look(rig).empty()) << i;
  EXPECT_TRUE(rig.take_failures().empty());
  look(rig);
  EXPECT_EQ(rig.take_failures().size(), 1u);
}

TEST(Stall, ALongSleepOfOurOwnIsNotHeldAgainstThePeer) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 100);
  rig.take_work();
  rig.send(peer, 600, false, true);
  look(rig);
  rig.now = rig.now + seconds(3600);  // stopped, say by a debugger
  look(rig);
  EXPECT_TRUE(rig.take_failures().empty());
}

TEST(Probe, AsksASilentPeerSeldomAndForEver) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  const Time begin = rig.now;
  std::uint64_t probes = 0;
  while (rig.now - begin < seconds(3600)) {
    for (const WorkRequest& work : look(rig)) {
      EXPECT_EQ(work.opcode, Opcode::probe);
      EXPECT_EQ(work.lane, lane);
      EXPECT_TRUE(work.signalled);
      EXPECT_EQ(work.length_bytes, 0u);
      ++probes;
      rig.complete(work);
    }
  }
  EXPECT_TRUE(rig.take_failures().empty());
  EXPECT_TRUE(rig.take_retired().empty());
  EXPECT_TRUE(rig.core.conserved());
  EXPECT_EQ(probes, rig.core.counters().probes_sent);
  EXPECT_GE(probes, 3600u / 12);
  EXPECT_LE(probes, 3600u / 10);
}

// However the silence falls between the looks, it is over before the timeout is.
TEST(Probe, NoticesASilentDeathInTimeAlthoughNothingIsSent) {
  for (std::int64_t last_ms = 0; last_ms < 12000; last_ms += 500) {
    Rig rig;
    const LaneId lane = rig.accept(other);
    const Time died = rig.now + milliseconds(last_ms);
    while (rig.core.next_deadline() < died) {
      for (const WorkRequest& work : look(rig)) rig.complete(work);
    }
    rig.now = died;
    rig.arrive(lane, {});  // its last word
    for (int looks = 0; looks < 20 && rig.core.state(PeerId{0}) == PeerState::ready; ++looks) {
      look(rig);  // and no answer
    }
    const auto failures = rig.take_failures();
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].reason, FailReason::stalled);
    EXPECT_LE(rig.now - died, seconds(30)) << last_ms;
    EXPECT_GE(rig.now - died, seconds(15)) << last_ms;  // an outage of half of it is survived
  }
}

TEST(Probe, ItsErrorNamesTheStatus) {
  Rig rig;
  rig.accept(other);
  std::vector<WorkRequest> work;
  while (work.empty()) work = look(rig);
  rig.complete(work[0], CompletionStatus::retry_exc_err);
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].reason, FailReason::send_failed);
  EXPECT_EQ(failures[0].completion, CompletionStatus::retry_exc_err);
}

TEST(Probe, WhoIsHeardIsNotAsked) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  ASSERT_GT(rig.granted, 6u);
  for (int i = 0; i < 6; ++i) {
    rig.arrive(lane, {});
    look(rig);
  }
  EXPECT_EQ(rig.core.counters().probes_sent, 0u);
}

TEST(Probe, NeitherWhoSaidGoodbyeNorOurselves) {
  Rig rig;
  const LaneId lane = rig.accept(other);
  rig.arrive(lane, {.kind = wire::FrameKind::goodbye});
  EXPECT_EQ(rig.core.next_deadline(), Time::never());
  const PeerId loop = rig.core.add_peer(rig::self);
  ASSERT_EQ(rig.send(loop), Status::ok);
  rig.core.on_established(rig.now, rig.take_connects().at(0).lane, rig.out);
  rig.settle();
  ASSERT_EQ(rig.core.state(loop), PeerState::ready);
  EXPECT_EQ(rig.core.next_deadline(), Time::never());
}

TEST(Probe, ManyPeersTakeTurns) {
  Core::Config config = rig::small_config();
  config.window = {.initial = 16, .max = 4096};
  config.shrink_after = {};  // no looks but those at the lanes
  Rig rig(config);
  constexpr std::uint32_t peers = 300;
  for (std::uint32_t i = 0; i < peers; ++i) rig.accept({2, i});
  for (const WorkRequest& credits : rig.take_work()) rig.complete(credits);
  for (const WorkRequest& probe : look(rig)) rig.complete(probe);  // they were heard until now
  for (int i = 0; i < 12; ++i) {
    const auto work = look(rig);
    EXPECT_EQ(work.size(), peers / 3);
    for (const WorkRequest& probe : work) rig.complete(probe);
  }
  EXPECT_TRUE(rig.core.conserved());
}

// Each call is under the engine's lock.
TEST(Probe, OneCallLooksAtSomeHundredLanesAtMost) {
  Core::Config config = rig::small_config();
  config.window = {.initial = 16, .max = 8192};
  config.shrink_after = {};
  Rig rig(config);
  constexpr std::uint32_t peers = 1000;
  for (std::uint32_t i = 0; i < peers; ++i) rig.accept({2, i});
  for (const WorkRequest& credits : rig.take_work()) rig.complete(credits);
  for (const WorkRequest& probe : look(rig)) rig.complete(probe);
  rig.now = rig.core.next_deadline();
  std::size_t probes = 0;
  for (std::uint32_t seen = 0; seen < peers; seen += 256) {
    ASSERT_LE(rig.core.next_deadline(), rig.now);
    rig.core.on_timer(rig.now, rig.out);
    const auto work = rig.take_work();
    EXPECT_LE(work.size(), 256u / 3 + 1);
    probes += work.size();
  }
  EXPECT_GT(rig.core.next_deadline(), rig.now);
  EXPECT_GE(probes, peers / 3);
}

TEST(Probe, DoesNotKeepUsFromLeaving) {
  Rig rig;
  rig.accept(other);
  std::vector<WorkRequest> work;
  while (work.empty()) work = look(rig);
  rig.core.close(rig.now, PeerId{0}, rig.out);
  rig.settle();
  ASSERT_EQ(rig.core.state(PeerId{0}), PeerState::said);
  const auto goodbye = rig.take_work();
  ASSERT_EQ(goodbye.size(), 1u);
  rig.complete(goodbye[0]);  // it completes in order: the probe has, too
  EXPECT_EQ(rig.core.state(PeerId{0}), PeerState::closed);
  EXPECT_TRUE(rig.core.conserved());
}

TEST(Stall, ProgressIsEnough) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 1000);
  rig.take_work();
  rig.send(peer, 600, false, true);
  for (int i = 0; i < 100; ++i) {
    const auto before = rig.take_work();
    rig.send(peer, 600, false, true);
    rig.now = rig.now + seconds(10);
    rig.core.on_timer(rig.now, rig.out);
    rig.complete(before.back());
  }
  EXPECT_TRUE(rig.take_failures().empty());
}

// ---- by itself

struct Watched : Rooms {
  Watch watch{config, peers, lanes, sender, connector};
  std::vector<WorkRequest> look() {
    now = std::max(now, watch.next_look());
    watch.on_timer(now, out);
    settle();
    return take_work();
  }
};

TEST(Watch, HasNothingToLookAtWithoutLanes) {
  Watched rooms;
  EXPECT_EQ(rooms.watch.next_look(), Time::never());
  Peer& peer = rooms.connect(other, 4);
  EXPECT_NE(rooms.watch.next_look(), Time::never());
  rooms.connector.on_goodbye(rooms.now, peer, rooms.out);
  EXPECT_EQ(rooms.watch.next_look(), Time::never());
}

TEST(Watch, LooksNoMoreOftenThanEightTimesInATimeout) {
  Watched rooms;
  rooms.connect(other, 4);
  rooms.look();
  const Time next = rooms.watch.next_look();
  EXPECT_EQ(next - rooms.now, rooms.config.peer_timeout / 8);
  for (int i = 0; i < 100; ++i) rooms.watch.on_timer(rooms.now, rooms.out);  // too early
  EXPECT_EQ(rooms.watch.next_look(), next);
  EXPECT_TRUE(rooms.take_work().empty());
}

TEST(Watch, AProbeWithoutAnAnswerEndsThePeerAndAnAnswerDoesNot) {
  Watched rooms;
  Peer& peer = rooms.connect(other, 4);
  for (const bool answers : {true, false}) {
    std::vector<WorkRequest> probe;
    for (int i = 0; i < 4 && probe.empty(); ++i) probe = rooms.look();
    ASSERT_EQ(probe.size(), 1u) << answers;
    EXPECT_EQ(probe[0].opcode, Opcode::probe);
    if (answers) rooms.retire(probe[0]);
  }
  for (int i = 0; i < 3; ++i) {
    rooms.look();
    EXPECT_TRUE(peer.connection.is_ready()) << i;
  }
  rooms.look();
  ASSERT_EQ(rooms.out.failures.size(), 1u);
  EXPECT_EQ(rooms.out.failures[0].reason, FailReason::stalled);
}

TEST(Watch, OneWithFramesAndNoCreditsIsAskedAtEveryLook) {
  Watched rooms;
  Peer& peer = rooms.connect(other, 0);
  rooms.send(peer);
  for (int i = 0; i < 6; ++i) {
    const auto work = rooms.look();
    ASSERT_EQ(work.size(), 1u) << i;
    EXPECT_EQ(work[0].opcode, Opcode::probe);
    rooms.retire(work[0]);
  }
  EXPECT_TRUE(peer.connection.is_ready());
}

TEST(Watch, WorkThatMovesIsGivenItsTimeAnew) {
  Watched rooms;
  Peer& peer = rooms.connect(other, 1000);
  for (int i = 0; i < 4; ++i) rooms.send(peer);  // the fourth is signalled
  auto before = rooms.take_work();
  for (int i = 0; i < 5; ++i) {
    for (int looks = 0; looks < 7; ++looks) rooms.look();
    ASSERT_TRUE(peer.connection.is_ready()) << i;
    for (int sent = 0; sent < 4; ++sent) rooms.send(peer);
    const auto next = rooms.take_work();
    rooms.retire(before.back());
    before = next;
  }
  for (int looks = 0; looks < 8; ++looks) rooms.look();
  EXPECT_EQ(peer.connection.state(), PeerState::failed);
}

}  // namespace
}  // namespace weir
