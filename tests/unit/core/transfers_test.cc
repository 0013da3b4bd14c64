// Gets, puts and atomics: chunks on the peer's lane, within the budget and the queue's room.
#include "transport/core/transfers.h"

#include <gtest/gtest.h>

#include "tests/unit/core/rooms.h"

namespace weir {
namespace {

using rig::KiB;
using rig::lesser;
using rig::other;
using rig::Rig;

Core::Config rdma_config() {
  Core::Config config = rig::small_config();
  config.transfers.plan = {.chunk_bytes = 16 * KiB, .alignment_bytes = 4096};
  config.transfers.reads.adaptive = false;
  config.transfers.reads.reads = 6;
  config.max_rd_atomic = 4;
  config.shrink_after = {};
  return config;
}

TransferRequest get_of(PeerId peer, std::uint64_t bytes, std::uint64_t token = 1) {
  return rig::transfer_of(peer, Opcode::read, bytes, token);
}

TransferRequest put_of(PeerId peer, std::uint64_t bytes, std::uint64_t token = 1) {
  return rig::transfer_of(peer, Opcode::write, bytes, token);
}

struct Rdma : testing::Test {
  Rdma() : rig(rdma_config()) {
    peer = rig.core.add_peer(other);
    lane = rig.connect(peer, 40);
    for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  }

  void start(const TransferRequest& request) {
    rig.core.transfer(rig.now, request, rig.out);
    rig.settle();
  }

  std::vector<TransferEnd> take_ends() { return std::exchange(rig.out.transfers, {}); }

  Rig rig;
  PeerId peer;
  LaneId lane;
};

TEST_F(Rdma, AGetIsCutIntoReadsWithinMaxRdAtomic) {
  start(get_of(peer, 96 * KiB));
  std::uint64_t bytes = 0;
  int chunks = 0;
  while (rig.core.has_transfers()) {
    const auto work = rig.take_work();
    ASSERT_LE(work.size(), 4u);
    ASSERT_FALSE(work.empty());
    for (const WorkRequest& read : work) {
      EXPECT_EQ(read.opcode, Opcode::read);
      EXPECT_TRUE(read.signalled);
      EXPECT_EQ(read.address, 0x900000 + bytes);
      EXPECT_EQ(read.remote_address, 0x100000 + bytes);
      EXPECT_EQ(read.rkey, 7u);
      bytes += read.length_bytes;
      ++chunks;
    }
    EXPECT_TRUE(take_ends().empty());
    EXPECT_EQ(rig.core.transfers_under_way(), 1u);
    EXPECT_EQ(rig.core.chunks_under_way(), work.size());
    for (const WorkRequest& read : work) rig.complete(read);
  }
  EXPECT_EQ(bytes, 96 * KiB);
  EXPECT_EQ(chunks, 6);
  const auto ends = take_ends();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].token, 1u);
  EXPECT_TRUE(ends[0].ok);
  EXPECT_TRUE(rig.core.conserved());
}

TEST_F(Rdma, FramesPassBetweenChunks) {
  start(get_of(peer, 1024 * KiB));
  EXPECT_EQ(rig.take_work().size(), 4u);  // max_rd_atomic: the rest does not sit in the queue
  ASSERT_EQ(rig.send(peer), Status::ok);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].opcode, Opcode::send);
}

// Room that frames have taken is not there for chunks either, whoever gives back the budget for
// them.
TEST_F(Rdma, ChunksDoNotJoinAQueueThatFramesHaveFilled) {
  const PeerId third = rig.core.peer_of(rig.accept(lesser, 40));
  start(get_of(third, 1024 * KiB));
  const auto reads = rig.take_work();
  ASSERT_EQ(reads.size(), 4u);
  start(get_of(peer, 1024 * KiB));
  ASSERT_EQ(rig.take_work().size(), 2u);  // six for both
  for (int i = 0; i < 12; ++i) rig.send(peer, 600, true);
  ASSERT_EQ(rig.take_work().size(), 10u);
  for (int i = 0; i < 4; ++i) {
    rig.complete(reads[static_cast<std::size_t>(i)]);
    for (const WorkRequest& work : rig.take_work()) EXPECT_NE(work.lane, lane);
  }
}

TEST_F(Rdma, ChunksLeaveTheControlFramesTheirRoom) {
  std::vector<WorkRequest> all;
  for (std::uint64_t i = 0; i < 40; ++i) start(put_of(peer, 8 * KiB, i));
  all = rig.take_work();
  EXPECT_EQ(all.size(), 12u);  // depth 16 less the reserve
  std::size_t ended = 0;
  while (!all.empty()) {
    for (const WorkRequest& write : all) {
      EXPECT_EQ(write.opcode, Opcode::write);
      rig.complete(write);
    }
    all = rig.take_work();
    ended += take_ends().size();
  }
  EXPECT_EQ(ended, 40u);
  EXPECT_TRUE(rig.core.conserved());
}

// The queue filled up with frames while chunks of the peer waited for the budget.
TEST_F(Rdma, ChunksWaitForRoomThatFramesTook) {
  start(get_of(peer, 1024 * KiB));
  const auto reads = rig.take_work();
  ASSERT_EQ(reads.size(), 4u);
  std::size_t posted = reads.size();
  for (int i = 0; i < 20; ++i) {
    rig.send(peer, 600, true);
    rig.core.begin_round();
  }
  rig.pump();
  posted += rig.take_work().size();
  ASSERT_EQ(posted, 12u);
  rig.complete(reads[0]);
  EXPECT_LE(posted - 1 + rig.take_work().size(), 12u);
}

// The same, but before the peer had any chunk to send.
TEST_F(Rdma, AQueueFullOfFramesTakesNoChunk) {
  start(get_of(peer, 8));
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  for (int i = 0; i < 20; ++i) {
    rig.send(peer, 600, true);
    rig.core.begin_round();
  }
  rig.pump();
  const auto frames = rig.take_work();
  ASSERT_EQ(frames.size(), 12u);
  start(get_of(peer, 8));
  EXPECT_TRUE(rig.take_work().empty());
  for (const WorkRequest& frame : frames) {
    if (frame.signalled) rig.complete(frame);
  }
  EXPECT_FALSE(rig.take_work().empty());
}

TEST_F(Rdma, SmallPutsAreInlined) {
  start(put_of(peer, 64));
  start(put_of(peer, 65));
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 2u);
  EXPECT_TRUE(work[0].inlined);
  EXPECT_FALSE(work[1].inlined);
}

TEST_F(Rdma, AtomicsCarryTheirOperands) {
  TransferRequest swap = get_of(peer, 8);
  swap.opcode = Opcode::compare_swap;
  swap.operand = 11;
  swap.compare = 22;
  start(swap);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].opcode, Opcode::compare_swap);
  EXPECT_EQ(work[0].length_bytes, 8u);
  EXPECT_EQ(work[0].operand, 11u);
  EXPECT_EQ(work[0].compare, 22u);
  EXPECT_FALSE(work[0].inlined);
}

int looks = 0;  // at the clock

TEST_F(Rdma, OnlyLongReadsLookAtTheClock) {
  const auto looks_for = [&](const TransferRequest& request) {
    looks = 0;
    const Now now([] { return Time{1000 + ++looks}; });
    rig.core.transfer(now, request, rig.out);
    for (const WorkRequest& work : rig.take_work()) {
      const Now later([] { return Time{2000 + ++looks}; });
      rig.core.on_completion(
          later, {Opcode::send, CompletionStatus::success, 0, work.lane, work.id}, rig.out);
    }
    EXPECT_EQ(take_ends().size(), 1u);
    return looks;
  };
  EXPECT_EQ(looks_for(put_of(peer, 8)), 0);
  EXPECT_EQ(looks_for(put_of(peer, 4 * KiB)), 0);
  EXPECT_EQ(looks_for(get_of(peer, 8)), 0);
  EXPECT_EQ(looks_for(get_of(peer, 4 * KiB)), 2);
}

// While the path is probed, one read goes at a time, and that must not last.
TEST(Transfers, ShortReadsEndAProbe) {
  Core::Config config = rdma_config();
  config.transfers.reads.adaptive = true;
  Rig rig(config);
  const PeerId peer = rig.core.add_peer(other);
  rig.connect(peer, 40);
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  // Starts two, which take as long together; returns how many go at once.
  const auto read_two = [&](std::uint64_t bytes, Duration took) {
    for (int i = 0; i < 2; ++i) rig.core.transfer(rig.now, get_of(peer, bytes), rig.out);
    const auto first = rig.take_work();
    rig.now = rig.now + took;
    for (auto work = first; !work.empty(); work = rig.take_work()) {
      for (const WorkRequest& read : work) rig.complete(read);
    }
    return first.size();
  };
  EXPECT_EQ(read_two(4 * KiB, microseconds(30)), 2u);
  rig.now = rig.now + seconds(2);
  EXPECT_EQ(read_two(4 * KiB, microseconds(60)), 2u);
  EXPECT_EQ(read_two(8, microseconds(10)), 1u) << "the path is probed";
  for (int i = 0; i < 10; ++i) read_two(8, microseconds(10));
  EXPECT_EQ(read_two(8, microseconds(10)), 2u);
}

TEST_F(Rdma, NoBytesAreOverAtOnce) {
  start(get_of(peer, 0));
  EXPECT_TRUE(rig.take_work().empty());
  ASSERT_EQ(take_ends().size(), 1u);
}

// The lane is dropped, by which its pair is broken, before anybody hears that the get failed.
TEST_F(Rdma, AFailedPeerEndsItsTransfers) {
  start(get_of(peer, 96 * KiB, 5));
  start(put_of(peer, 96 * KiB, 6));
  const auto work = rig.take_work();
  rig.complete(work[0]);
  rig.take_work();
  rig.complete(work[1], CompletionStatus::retry_exc_err);
  EXPECT_EQ(rig.take_failures().size(), 1u);
  EXPECT_EQ(rig.take_connects().at(0).kind, ConnectAction::Kind::drop);
  const auto ends = take_ends();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_FALSE(ends[0].ok);
  EXPECT_FALSE(ends[1].ok);
  EXPECT_FALSE(rig.core.has_transfers());
  EXPECT_EQ(rig.core.transfers_under_way(), 0u);
  EXPECT_EQ(rig.core.chunks_under_way(), 0u);
  EXPECT_TRUE(rig.core.conserved());
  start(get_of(peer, 8, 7));  // from here on at once
  ASSERT_EQ(rig.out.transfers.size(), 1u);
  EXPECT_FALSE(rig.out.transfers[0].ok);
}

// What a peer had of the budget goes to the others at once: no completion of theirs would come.
TEST_F(Rdma, AFailureNamesWhatTheChunkWasAPartOf) {
  rig.send(peer);
  start(get_of(peer, 20 * KiB, 7));
  start(put_of(peer, 300, 8));
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 4u);  // the frame, two chunks, the put
  const WorkRequest& refused = work[2];
  rig.core.on_completion(
      rig.now, {refused.opcode, CompletionStatus::rem_access_err, 0, refused.lane, refused.id},
      rig.out);
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].completion, CompletionStatus::rem_access_err);
  EXPECT_EQ(failures[0].request.peer, peer);
  EXPECT_EQ(failures[0].request.token, refused.opcode == Opcode::write ? 8u : 7u);
  EXPECT_EQ(failures[0].request.remote_address, 0x100000u);
}

TEST_F(Rdma, AFailedFrameNamesNoTransfer) {
  start(get_of(peer, 20 * KiB, 7));
  rig.send(peer);
  const auto work = rig.take_work();
  rig.complete(work.back(), CompletionStatus::retry_exc_err);
  const auto failures = rig.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].request.peer, PeerId::none);
}

TEST_F(Rdma, AFailedPeerLeavesItsBudgetToTheOthers) {
  const PeerId second = rig.core.add_peer(rig::lesser);
  const LaneId second_lane = rig.connect(second, 40);
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  start(get_of(second, 1024 * KiB, 5));
  EXPECT_EQ(rig.take_work().size(), 4u);
  start(get_of(peer, 32 * KiB, 6));
  EXPECT_EQ(rig.take_work().size(), 2u);  // all six
  start(get_of(peer, 32 * KiB, 7));
  EXPECT_TRUE(rig.take_work().empty());
  rig.core.on_lane_error(rig.now, second_lane, rig.out);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 2u);
  EXPECT_EQ(work[0].lane, lane);
  EXPECT_EQ(rig.core.counters().reads_out, 4u);
  EXPECT_TRUE(rig.core.conserved());
}

// It was left while it had no transfers. Until the new connection is there nothing may be posted.
TEST_F(Rdma, APeerThatWasLeftHasToBeConnectedAgain) {
  start(get_of(peer, 8));
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  rig.core.abandon(rig.now, peer, rig.out);
  rig.take_connects();
  start(get_of(peer, 8));
  EXPECT_EQ(rig.take_connects().at(0).kind, ConnectAction::Kind::connect);
  const PeerId second = rig.core.add_peer(rig::lesser);
  rig.connect(second, 40);
  start(get_of(second, 8));
  for (const WorkRequest& work : rig.take_work()) {
    EXPECT_EQ(rig.core.peer_of(work.lane), second);
  }
}

TEST_F(Rdma, ClosingWaitsForTransfers) {
  start(get_of(peer, 8 * KiB));
  rig.core.close(rig.now, peer, rig.out);
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
  for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  rig.core.close(rig.now, peer, rig.out);
  EXPECT_EQ(rig.core.state(peer), PeerState::said);
}

// The first thing said to a peer can be a get.
TEST(RdmaConnect, ATransferAsksForAConnectionAndWaitsForIt) {
  Rig rig(rdma_config());
  const PeerId peer = rig.core.add_peer(other);
  rig.core.transfer(rig.now, get_of(peer, 8 * KiB), rig.out);
  rig.settle();
  EXPECT_TRUE(rig.take_work().empty());
  const ConnectAction request = rig.take_connects().at(0);
  EXPECT_EQ(request.kind, ConnectAction::Kind::connect);
  rig.core.on_answer(rig.now, request.lane, rig.answer(request), rig.out);
  const auto work = rig.take_work();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].opcode, Opcode::read);
}

// How many of them go at once to a peer whose adapter answers so many.
std::size_t reads_at_once(std::uint8_t answered) {
  Rig rig(rdma_config());
  rig.core.transfer(rig.now, get_of(rig.core.add_peer(other), 100 * KiB), rig.out);
  rig.settle();
  const ConnectAction request = rig.take_connects().at(0);
  EXPECT_EQ(request.hello.fetches, rdma_config().fetches_answered);
  wire::Hello answer = rig.answer(request);
  answer.fetches = answered;
  rig.core.on_answer(rig.now, request.lane, answer, rig.out);
  return rig.take_work().size();
}

TEST(RdmaConnect, ReadsKeepToWhatBothAdaptersTake) {
  EXPECT_EQ(reads_at_once(2), 2u);
  EXPECT_EQ(reads_at_once(16), 4u);  // ours starts no more
  EXPECT_EQ(reads_at_once(0), 1u);   // no adapter says so
}

TEST(RdmaConnect, ATransferToAPeerThatCannotBeReachedFails) {
  Rig rig(rdma_config());
  const PeerId peer = rig.core.add_peer(other);
  rig.core.transfer(rig.now, get_of(peer, 8 * KiB), rig.out);
  const LaneId lane = rig.take_connects().at(0).lane;
  rig.core.on_connect_failed(rig.now, lane, FailReason::connect_refused, rig.out);
  ASSERT_EQ(rig.out.transfers.size(), 1u);
  EXPECT_FALSE(rig.out.transfers[0].ok);
  EXPECT_TRUE(rig.core.conserved());
}

// ---- by themselves

struct Fetching : rig::Rooms {
  Fetching() : Rooms(rdma_config()) {}
  // What the lanes have done is heard of.
  void complete(const WorkRequest& work) {
    retire(work);
    for (const RdmaInFlight& chunk : std::exchange(chunks_done, {})) transfers.on_chunk(now, chunk);
    transfers.issue(now, out);
  }
  std::vector<TransferEnd> take_ends() { return std::exchange(out.transfers, {}); }

  Transfers transfers{config, counters, peers, lanes, sender, connector};
};

TEST(Transfers, AGetWaitsForTheConnectionAndEndsOnce) {
  Fetching rooms;
  Peer& peer = rooms.add(other);
  rooms.transfers.submit(rooms.now, get_of(peer.id, 40 * KiB, 9), rooms.out);
  EXPECT_TRUE(rooms.take_work().empty());
  EXPECT_TRUE(rooms.transfers.has(peer));
  rooms.connector.connect(rooms.now, peer, rooms.out);
  rooms.settle();
  rooms.answer(peer, 4);
  rooms.transfers.go_on(rooms.now, peer, rooms.out);
  auto work = rooms.take_work();
  EXPECT_EQ(work.size(), 2u);  // so many the peer answers at a time
  std::uint32_t bytes = 0;
  while (!work.empty()) {
    EXPECT_TRUE(rooms.take_ends().empty());
    bytes += work[0].length_bytes;
    rooms.complete(work[0]);
    work.erase(work.begin());
    for (const WorkRequest& next : rooms.take_work()) work.push_back(next);
  }
  EXPECT_EQ(bytes, 40 * KiB);
  const auto ends = rooms.take_ends();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].token, 9u);
  EXPECT_TRUE(ends[0].ok);
  EXPECT_TRUE(rooms.transfers.idle());
  EXPECT_TRUE(rooms.transfers.conserved());
}

TEST(Transfers, WhatIsDroppedFailsAndItsBudgetIsOthers) {
  Fetching rooms;
  Peer& gone = rooms.connect(other, 4);
  Peer& stays = rooms.connect(lesser, 4);
  rooms.config.transfers.reads.reads = 6;
  rooms.transfers.submit(rooms.now, get_of(gone.id, 320 * KiB, 1), rooms.out);
  rooms.transfers.submit(rooms.now, get_of(gone.id, 320 * KiB, 2), rooms.out);
  rooms.take_work();
  rooms.transfers.drop(rooms.now, gone, rooms.out);
  const auto ends = rooms.take_ends();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_FALSE(ends[0].ok || ends[1].ok);
  EXPECT_EQ(rooms.transfers.chunks_under_way(), 0u);
  EXPECT_TRUE(rooms.transfers.conserved());
  rooms.transfers.submit(rooms.now, get_of(stays.id, 32 * KiB, 3), rooms.out);
  EXPECT_EQ(rooms.take_work().size(), 2u);
  rooms.connector.fail(rooms.now, gone, FailReason::stalled, rooms.out);
  rooms.transfers.submit(rooms.now, get_of(gone.id, 1 * KiB, 4), rooms.out);
  ASSERT_EQ(rooms.out.transfers.size(), 1u);  // over at once
  EXPECT_EQ(rooms.out.transfers[0].token, 4u);
  EXPECT_FALSE(rooms.out.transfers[0].ok);
}

TEST(Transfers, AFullQueueHoldsChunksUntilThereIsRoom) {
  Fetching rooms;
  Peer& peer = rooms.connect(other, 4);
  rooms.transfers.submit(rooms.now, put_of(peer.id, 1024 * KiB), rooms.out);
  const auto work = rooms.take_work();
  ASSERT_FALSE(work.empty());
  rooms.transfers.on_queue_full(peer);
  rooms.complete(work[0]);
  EXPECT_TRUE(rooms.take_work().empty());
  rooms.transfers.go_on(rooms.now, peer, rooms.out);
  EXPECT_FALSE(rooms.take_work().empty());
}

struct TokenGate final : RequestGate {
  bool passes(const SendSlot&) override { return false; }
  Way way(const Now&, Peer&, SendSlot&) override { return Way::own_lane; }
  bool admit(const Now&, Peer&, SendSlot&) override { return false; }
  bool admit_chunk(const Now&, std::uint32_t bytes, std::uint16_t& tokens) override {
    EXPECT_LE(bytes, 16 * KiB);
    tokens = 3;
    return admits-- > 0;
  }
  int admits = 0;
};

TEST(Transfers, EachChunkHasTheGatesLeaveAndKeepsItsTokens) {
  Fetching rooms;
  TokenGate gate;
  rooms.transfers.set_gate(&gate);
  Peer& peer = rooms.connect(other, 4);
  rooms.transfers.submit(rooms.now, get_of(peer.id, 320 * KiB), rooms.out);
  EXPECT_TRUE(rooms.take_work().empty());
  gate.admits = 1;
  rooms.transfers.issue(rooms.now, rooms.out);
  const auto work = rooms.take_work();
  ASSERT_EQ(work.size(), 1u);
  rooms.retire(work[0]);
  ASSERT_EQ(rooms.chunks_done.size(), 1u);
  EXPECT_EQ(rooms.chunks_done[0].tokens, 3u);
}

}  // namespace
}  // namespace weir
