// Eager send: connection on demand, bundles, credits, the send queue, back-pressure.
#include <gtest/gtest.h>

#include "tests/expose.h"
#include "tests/unit/core/rooms.h"

namespace weir {
namespace {

using rig::other;
using rig::Rig;
using rig::Rooms;
using wire::Wakes;
using Kind = ConnectAction::Kind;

WEIR_EXPOSE(OffersLeftOf, Sender::offers_left_);

// W grows with each new peer of many.
TEST(Shares, OnePeerMoreIsNotALookAtAll) {
  Rooms rooms;
  for (std::uint32_t rank = 100; rank < 1100; ++rank) rooms.add({1, rank});
  rooms.sender.offer_shares(rooms.out);
  EXPECT_EQ(rooms.sender.*inner(OffersLeftOf{}), 1000u - 64u);
  int calls = 1;
  for (; rooms.sender.*inner(OffersLeftOf{}) > 0; ++calls) rooms.sender.send_owed(rooms.out);
  EXPECT_EQ(calls, 16);
}

TEST(Send, TheFirstMessageAsksForAConnectionAndGoesWithTheAnswer) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  EXPECT_EQ(rig.send(peer, 40), Status::ok);
  EXPECT_TRUE(rig.take_work().empty());
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.size(), 1u);
  EXPECT_EQ(connects[0].kind, Kind::connect);
  EXPECT_EQ(connects[0].peer, peer);
  EXPECT_EQ(connects[0].hello.from, rig::self);
  EXPECT_EQ(connects[0].hello.to, other);
  EXPECT_GE(connects[0].hello.credits, 2);
  EXPECT_EQ(rig.send(peer, 40), Status::ok);  // asks only once
  EXPECT_TRUE(rig.take_connects().empty());

  rig.core.on_answer(rig.now, connects[0].lane, rig.answer(connects[0]), rig.out);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 2u);
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(work[i].id, i);
    EXPECT_EQ(work[i].lane, connects[0].lane);
    EXPECT_EQ(work[i].opcode, Opcode::send);
    EXPECT_EQ(work[i].length_bytes, 16u + 40u);
    EXPECT_TRUE(work[i].inlined);
    EXPECT_EQ(rig.header_of(work[i]).sequence, i);
  }
}

// The announcement of a large message is to be answered although the receiver computes.
TEST(Send, WakesOnlyAPeerThatAsksForIt) {
  for (const Wakes wants : {Wakes::none, Wakes::answers, Wakes::all}) {
    Rig rig;
    const PeerId peer = rig.core.add_peer(other);
    const auto send = [&](bool wakes) {
      SendSlot* const slot = rig.slot();
      slot->wakes = wakes;
      EXPECT_EQ(rig.core.send(rig.now, peer, slot, 40, 7, true, rig.out), Status::ok);
    };
    send(true);  // before anything is known of the peer
    const auto connects = rig.take_connects();
    ASSERT_EQ(connects.size(), 1u);
    EXPECT_EQ(connects[0].hello.wakes, Wakes::none);
    wire::Hello answer = rig.answer(connects[0]);
    answer.wakes = wants;
    rig.core.on_answer(rig.now, connects[0].lane, answer, rig.out);
    send(false);
    send(true);
    const auto work = rig.take_work();
    ASSERT_EQ(work.size(), 3u);
    EXPECT_EQ(work[0].solicited, wants != Wakes::none);
    EXPECT_EQ(work[1].solicited, wants == Wakes::all);
    EXPECT_EQ(work[2].solicited, wants != Wakes::none);
  }
}

TEST(Send, SaysWhetherItWantsToBeWoken) {
  Core::Config config = rig::small_config();
  config.wakes = Wakes::answers;
  Rig rig(config);
  rig.core.on_request(rig.now, RequestId{1}, rig.hello(other), rig.out);
  EXPECT_EQ(rig.take_connects().back().hello.wakes, Wakes::answers);
  rig.send(rig.core.add_peer({1, 77}));
  EXPECT_EQ(rig.take_connects().back().hello.wakes, Wakes::answers);
}

TEST(Send, RefusesWhatDoesNotFit) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  EXPECT_EQ(rig.core.max_payload_bytes(), 1024u - 16u);
  EXPECT_EQ(rig.send(peer, 1009), Status::too_large);
  SendSlot* small = rig.slot();
  small->capacity_bytes = 100;
  EXPECT_EQ(rig.core.send(rig.now, peer, small, 85, 0, true, rig.out), Status::too_large);
  EXPECT_EQ(rig.core.send(rig.now, peer, small, 84, 0, true, rig.out), Status::ok);
  EXPECT_EQ(rig.send(peer, 1008), Status::ok);
}

// What a server of the node adds to a frame has to fit as well.
TEST(Send, WithAProxyLeavesRoomForItsHeader) {
  Core::Config config = rig::small_config();
  config.proxy = true;
  config.bundle_bytes = 4096;  // more than a buffer
  Rig rig(config);
  const PeerId peer = rig.core.add_peer(other);
  EXPECT_EQ(rig.core.max_payload_bytes(), 1024u - 16u - 8u);
  EXPECT_EQ(rig.send(peer, 1001), Status::too_large);
  SendSlot* const bundle = rig.slot();
  EXPECT_EQ(rig.core.send(rig.now, peer, bundle, 16, 0, true, rig.out), Status::ok);
  while (rig.core.append(peer, 8, 1) != nullptr) continue;
  EXPECT_LE(bundle->frame_bytes, 1024u - 8u);
  EXPECT_GT(bundle->frame_bytes, 1024u - 8u - 2 * 16u);
}

// Nor past the end of a slot that was taken for one small message.
TEST(Send, ABundleIsNoLargerThanItsSlot) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  SendSlot* const small = rig.slot();
  small->capacity_bytes = 100;
  EXPECT_EQ(rig.core.send(rig.now, peer, small, 8, 0, true, rig.out), Status::ok);
  while (rig.core.append(peer, 8, 1) != nullptr) continue;
  EXPECT_LE(small->frame_bytes, 100u);
}

TEST(Send, ABurstGoesAtOnceAndTheRestWaitsInABundle) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 8);
  rig.pump();
  rig.take_work();
  EXPECT_FALSE(rig.core.would_hold(peer));
  rig.send(peer);
  rig.send(peer);
  EXPECT_EQ(rig.take_work().size(), 2u);
  EXPECT_TRUE(rig.core.would_hold(peer));
  EXPECT_EQ(rig.core.append(peer, 8, 1), nullptr);  // nothing waits yet
  rig.send(peer);
  EXPECT_TRUE(rig.take_work().empty());
  EXPECT_EQ(rig.core.pending_frames(), 1u);

  std::byte* at = rig.core.append(peer, 5, 2);
  ASSERT_NE(at, nullptr);
  std::memcpy(at, "hello", 5);
  at = rig.core.append(peer, 3, 3);
  ASSERT_NE(at, nullptr);
  std::memcpy(at, "you", 3);
  EXPECT_EQ(rig.core.append(peer, 129, 4), nullptr);  // too large to be bundled

  rig.pump();
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].length_bytes, 8u + 16u + 16u + 8u + 3u);
  EXPECT_EQ(rig.core.pending_frames(), 0u);
  const auto* frame = reinterpret_cast<const std::byte*>(work[0].address);
  ASSERT_TRUE(wire::check_frame(frame, work[0].length_bytes));
  std::vector<std::string> seen;
  wire::for_each_message(frame, work[0].length_bytes,
                         [&](const std::byte* payload, std::uint32_t length, std::uint8_t, bool) {
                           seen.emplace_back(reinterpret_cast<const char*>(payload), length);
                         });
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[1], "hello");
  EXPECT_EQ(seen[2], "you");
  EXPECT_EQ(rig.core.counters().messages_bundled, 2u);
}

// Who sends little may compute then, and its peer would wait for what is held.
TEST(Send, OnlyInAFloodDoesTheRestOfABurstWait) {
  CoreConfig config = rig::small_config();
  config.flood_messages = 4;  // 2 at once in a flood
  config.queue.depth = 64;
  Rig rig(config);
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 32);
  rig.pump();
  rig.take_work();
  const auto sent_at_once = [&](int messages) {
    rig.core.begin_round();
    std::size_t frames = 0;
    for (int i = 0; i < messages; ++i) {
      if (rig.core.would_hold(peer) && rig.core.append(peer, 8, 1) != nullptr) continue;
      rig.send(peer);
      frames += rig.take_work().size();
    }
    rig.pump();
    rig.take_work();
    return frames;
  };
  EXPECT_EQ(sent_at_once(3), 3u);
  EXPECT_EQ(sent_at_once(5), 4u);
  EXPECT_EQ(sent_at_once(4), 2u);
  EXPECT_EQ(sent_at_once(3), 2u);  // what was bundled made the one before a flood
  EXPECT_EQ(sent_at_once(3), 3u);
}

TEST(Send, ABundleFillsUpAndTheNextOneFollows) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 8);
  rig.pump();
  rig.take_work();
  for (int i = 0; i < 3; ++i) rig.send(peer);
  rig.take_work();
  int appended = 0;
  while (rig.core.append(peer, 100, 0) != nullptr) ++appended;
  EXPECT_EQ(appended, 4);  // 24 + 4 * 112 <= 512 < 24 + 5 * 112
  EXPECT_TRUE(rig.take_work().empty());
  rig.send(peer, 100);  // opens a second bundle; the full one leaves
  EXPECT_EQ(rig.take_work().size(), 1u);
  EXPECT_NE(rig.core.append(peer, 100, 0), nullptr);
}

TEST(Send, BundlesForAllPeersLeaveWithARound) {
  Rig rig;
  const PeerId first = rig.core.add_peer(other);
  rig.connect(first, 8);
  const PeerId second = rig.core.peer_of(rig.accept(rig::lesser, 8));
  rig.pump();
  rig.take_work();
  for (const PeerId peer : {first, second}) {
    for (int i = 0; i < 3; ++i) rig.send(peer);
  }
  rig.take_work();
  ASSERT_EQ(rig.core.pending_frames(), 2u);
  rig.pump();
  EXPECT_EQ(rig.take_work().size(), 2u);
  EXPECT_EQ(rig.core.pending_frames(), 0u);
}

// A new round begins with every progress call, and a pump not with every one.
TEST(Send, WhatIsHeldIsNotOvertakenInTheNextRound) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 8);
  rig.pump();
  rig.take_work();
  for (int i = 0; i < 3; ++i) rig.send(peer);
  rig.take_work();
  ASSERT_TRUE(rig.core.has_held());
  const SendSlot* const held = &rig.slots.back();
  rig.core.begin_round();
  rig.send(peer, 600);
  const auto work = rig.take_work();
  ASSERT_GE(work.size(), 1u);
  EXPECT_EQ(work[0].address, reinterpret_cast<std::uint64_t>(held->frame));
}

TEST(Send, ALargeMessageIsNotHeld) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 8);
  rig.pump();
  rig.take_work();
  for (int i = 0; i < 4; ++i) rig.send(peer, 600);
  EXPECT_EQ(rig.take_work().size(), 4u);
}

TEST(Send, ASlotThatSomebodyWaitsForTakesNoOthers) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  EXPECT_EQ(rig.send(peer, 8, false, true), Status::ok);
  EXPECT_EQ(rig.core.append(peer, 8, 0), nullptr);
}

TEST(Send, BackPressureAtTheCapUnlessItMustBeTaken) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rig.send(peer), Status::ok);
  EXPECT_EQ(rig.send(peer), Status::back_pressure);
  EXPECT_EQ(rig.core.counters().back_pressure, 1u);
  EXPECT_EQ(rig.send(peer, 8, true), Status::ok);
  EXPECT_NE(rig.core.append(peer, 8, 0), nullptr);  // costs no frame
}

TEST(Send, CreditsBoundTheFramesAndComeBack) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.connect(peer, 3);
  for (int i = 0; i < 5; ++i) rig.send(peer, 600);
  auto work = rig.take_work();
  ASSERT_EQ(work.size(), 3u);
  EXPECT_EQ(rig.core.standing(peer).pending_frames, 3u);
  EXPECT_GT(rig.core.counters().credit_stalls, 0u);
  rig.arrive(lane, {.kind = wire::FrameKind::credits, .credits = 2});
  work = rig.take_work();
  ASSERT_EQ(work.size(), 2u);
  EXPECT_FALSE(rig.header_of(work[0]).starved);
  EXPECT_TRUE(rig.header_of(work[1]).starved);  // the last credit, and one frame still waits
  EXPECT_EQ(rig.header_of(work[0]).control_credits, 1);  // its control frame was taken
  EXPECT_EQ(rig.header_of(work[1]).control_credits, 0);
}

TEST(Send, NeverPostsBeyondTheSendQueue) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 100);
  for (int i = 0; i < 20; ++i) rig.send(peer, 600, true);
  auto work = rig.take_work();
  ASSERT_EQ(work.size(), 12u);  // depth 16, 4 kept for control frames
  EXPECT_TRUE(work.back().signalled);
  EXPECT_GT(rig.core.counters().queue_stalls, 0u);
  // The completion of the 4th (signalled: interval 4) frees four.
  EXPECT_TRUE(work[3].signalled);
  EXPECT_FALSE(work[2].signalled);
  rig.complete(work[3]);
  EXPECT_EQ(rig.take_work().size(), 4u);
  EXPECT_EQ(rig.take_retired().size(), 4u);
  rig.complete(work[11]);
  EXPECT_EQ(rig.take_work().size(), 5u);
  EXPECT_EQ(rig.core.standing(peer).pending_frames, 0u);
}

TEST(Send, WhoWaitsForASlotHearsOfItWithoutMoreTraffic) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 8);
  rig.take_work();
  rig.send(peer, 600, false, true);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_TRUE(work[0].signalled);
  rig.complete(work[0]);
  const auto retired = rig.take_retired();
  ASSERT_EQ(retired.size(), 2u);  // the first message of the connection came before it
  EXPECT_TRUE(retired[1].delivered);
  EXPECT_TRUE(retired[1].slot->notify);
}

TEST(Send, ToAFailedPeerIsRefused) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const LaneId lane = rig.connect(peer);
  rig.core.on_disconnected(rig.now, lane, rig.out);
  EXPECT_EQ(rig.send(peer), Status::peer_failed);
  EXPECT_EQ(rig.core.append(peer, 8, 0), nullptr);
}

TEST(Send, ToOneselfLoops) {
  Rig rig;
  const PeerId me = rig.core.add_peer(rig::self);
  EXPECT_EQ(rig.send(me), Status::ok);
  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.size(), 1u);
  EXPECT_EQ(connects[0].kind, Kind::loop);
  rig.core.on_established(rig.now, connects[0].lane, rig.out);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  const auto* frame = reinterpret_cast<const std::byte*>(work[0].address);
  rig.arrive_bytes(connects[0].lane, {frame, frame + work[0].length_bytes});
  const auto deliveries = rig.take_deliveries();
  ASSERT_EQ(deliveries.size(), 1u);
  EXPECT_EQ(deliveries[0].peer, me);
  EXPECT_TRUE(rig.core.conserved());
}

// ---- by itself

using rig::Rooms;

TEST(Sender, WhatWaitsForAConnectionGoesWhenItIsTold) {
  Rooms rooms;
  Peer& peer = rooms.add(other);
  rooms.send(peer);
  EXPECT_TRUE(rooms.take_work().empty());
  EXPECT_EQ(rooms.sender.pending_frames(), 1u);
  rooms.connector.connect(rooms.now, peer, rooms.out);
  rooms.settle();
  rooms.answer(peer, 4);
  EXPECT_TRUE(rooms.take_work().empty());  // it decides nothing by itself
  rooms.sender.go_on_with_all(rooms.now, peer, rooms.out);
  EXPECT_EQ(rooms.take_work().size(), 1u);
  EXPECT_EQ(rooms.sender.pending_frames(), 0u);
}

TEST(Sender, NoFrameLeavesWithoutACreditAndAllInOrder) {
  Rooms rooms;
  Peer& peer = rooms.connect(other, 1);
  std::vector<SendSlot*> frames;
  for (int i = 0; i < 4; ++i) frames.push_back(rooms.send(peer));
  EXPECT_EQ(peer.outgoing.credits(), 0u);
  auto posted = rooms.take_work();
  EXPECT_EQ(posted.size(), 1u);
  while (posted.size() < frames.size()) {
    EXPECT_EQ(rooms.sender.book(peer, {.credits = 1}), Sender::Booked::good);
    rooms.sender.go_on_with_all(rooms.now, peer, rooms.out);
    const auto next = rooms.take_work();
    ASSERT_EQ(next.size(), 1u);
    posted.push_back(next[0]);
  }
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(posted[i].address, reinterpret_cast<std::uint64_t>(frames[i]->frame));
    EXPECT_EQ(Rooms::header_of(posted[i]).sequence, i);
  }
}

TEST(Sender, TheLastControlCreditIsForGivingCredits) {
  Rooms rooms;
  Peer& peer = rooms.connect(other, 8, 1);
  rooms.sender.return_credits(peer, 2, rooms.out);
  EXPECT_TRUE(rooms.take_work().empty());
  EXPECT_EQ(peer.outgoing.credits(), 8u);
  EXPECT_EQ(rooms.sender.book(peer, {.control_credits = 1}), Sender::Booked::good);
  rooms.sender.return_credits(peer, 2, rooms.out);
  const auto work = rooms.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(Rooms::header_of(work[0]).kind, wire::FrameKind::returned);
  EXPECT_EQ(Rooms::header_of(work[0]).credits, 6u);
  EXPECT_EQ(peer.outgoing.credits(), 2u);
  EXPECT_EQ(peer.outgoing.control_credits(), 1u);
  EXPECT_TRUE(rooms.sender.send_goodbye(peer, rooms.out));  // which costs none
}

TEST(Sender, TakesNoMoreThanAPeerCanGive) {
  Rooms rooms;
  Peer& peer = rooms.connect(other, 8, 2);
  EXPECT_EQ(rooms.sender.book(peer, {.control_credits = 1}),
            Sender::Booked::too_many_control_credits);
  Peer& generous = rooms.connect(rig::lesser, 8, 2);
  Sender::Booked booked = Sender::Booked::good;
  for (int i = 0; i < 1000 && booked == Sender::Booked::good; ++i) {
    booked = rooms.sender.book(generous, {.credits = UINT16_MAX});
  }
  EXPECT_EQ(booked, Sender::Booked::too_many_credits);
}

TEST(Sender, TellsThatAQueueIsFullAndKeepsRoomForControlFrames) {
  Rooms rooms;
  Peer& peer = rooms.connect(other, 1000);
  rooms.take_told();
  for (int i = 0; i < 20; ++i) rooms.send(peer);
  rooms.sender.post_held(rooms.now, rooms.out);
  EXPECT_EQ(rooms.take_told(), std::vector<std::string>{"queue full"});
  EXPECT_EQ(rooms.take_work().size(), rooms.config.queue.depth - 4);
  EXPECT_EQ(rooms.sender.pending_frames(), 20u - 12u);
  EXPECT_TRUE(rooms.sender.send_probe(peer.connection.lane(), rooms.out));
  EXPECT_TRUE(rooms.sender.send_goodbye(peer, rooms.out));
}

TEST(Sender, WhatIsDroppedComesBackOldestFirst) {
  Rooms rooms;
  Peer& peer = rooms.connect(other, 0);
  std::vector<SendSlot*> frames;
  for (int i = 0; i < 3; ++i) frames.push_back(rooms.send(peer));
  std::vector<SendSlot*> dropped;
  rooms.sender.drop_pending(peer, [&](SendSlot* slot) { dropped.push_back(slot); });
  EXPECT_EQ(dropped, frames);
  EXPECT_EQ(rooms.sender.pending_frames(), 0u);
  EXPECT_FALSE(peer.outgoing.has_pending());
}

struct Doorkeeper final : RequestGate {
  bool passes(const SendSlot&) override { return false; }
  Way way(const Now&, Peer&, SendSlot&) override { return goes; }
  bool admit(const Now&, Peer&, SendSlot&) override { return admits; }
  bool admit_chunk(const Now&, std::uint32_t, std::uint16_t&) override { return admits; }
  Way goes = Way::own_lane;
  bool admits = true;
};

TEST(Sender, AsksTheGateForEachFrame) {
  Rooms rooms;
  Doorkeeper gate;
  rooms.sender.set_gate(&gate);
  Peer& peer = rooms.connect(other, 8);
  gate.admits = false;
  rooms.send(peer);
  EXPECT_TRUE(rooms.take_work().empty());
  EXPECT_EQ(peer.outgoing.credits(), 8u);
  gate.goes = RequestGate::Way::blocked;
  gate.admits = true;
  rooms.sender.go_on_with_all(rooms.now, peer, rooms.out);
  EXPECT_TRUE(rooms.take_work().empty());
  gate.goes = RequestGate::Way::own_lane;
  rooms.sender.go_on_with_all(rooms.now, peer, rooms.out);
  EXPECT_EQ(rooms.take_work().size(), 1u);
  gate.goes = RequestGate::Way::taken;
  rooms.send(peer);
  EXPECT_TRUE(rooms.take_work().empty());
  EXPECT_EQ(rooms.sender.pending_frames(), 0u);  // another process has it
  EXPECT_EQ(peer.outgoing.credits(), 7u);
}

}  // namespace
}  // namespace weir
