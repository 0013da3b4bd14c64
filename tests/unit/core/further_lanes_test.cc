// Further lanes for the chunks of large gets: how they come about, what goes over them, and how one
// of them ends while its connection goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/unit/core/rig.h"

namespace weir {
namespace {

using rig::KiB;
using rig::other;
using rig::Rig;
using Kind = ConnectAction::Kind;

Core::Config paths_config(std::uint32_t paths) {
  Core::Config config = rig::small_config();
  config.transfers.plan = {.chunk_bytes = 16 * KiB, .alignment_bytes = 4096};
  config.transfers.reads = {.adaptive = false, .reads = 64};
  config.transfers.chain_bytes = 64 * KiB;
  config.max_rd_atomic = 4;
  config.fetches_apart = true;
  config.paths = paths;
  config.spread_bytes = 64 * KiB;
  config.resumes = true;
  config.shrink_after = {};
  return config;
}

struct Paths : testing::Test {
  explicit Paths(std::uint32_t paths = 3, std::uint8_t joins = 8) : rig(paths_config(paths)) {
    peer = rig.core.add_peer(other, {.port = 1, .further_lanes = joins});
    frames = rig.connect(peer, 400);
    for (const WorkRequest& work : rig.take_work()) rig.complete(work);
  }

  void get(std::uint64_t bytes, std::uint64_t token = 1, Opcode opcode = Opcode::read) {
    rig.core.transfer(rig.now, rig::transfer_of(peer, opcode, bytes, token), rig.out);
    settle();
  }

  void hear(const wire::LaneEnd& end) {
    std::vector<std::byte> frame(wire::lane_frame_bytes);
    wire::put(frame.data(),
              wire::FrameHeader{.kind = wire::FrameKind::lane_end, .sequence = rig.sequence++});
    wire::put(frame.data() + wire::frame_header_bytes, end);
    rig.arrive_bytes(frames, frame);
    settle();
  }

  // Our pairs are made, and have numbers from 101 on, by lane; frames arrive, reads stay.
  void settle() {
    for (bool more = true; more;) {
      more = false;
      for (const ConnectAction& action : rig.take_connects()) {
        more = true;
        if (action.kind == Kind::drop) dropped.insert(action.lane);
        if (action.kind != Kind::lane_end) continue;
        wire::LaneEnd ours = action.ours;
        if (ours.qp_number == 0) ours.qp_number = ++pairs;
        ours.reads = 4;
        number_of[action.lane] = ours.number;
        if (fails.count(ours.number) != 0) ours = {};
        rig.core.on_lane_end(rig.now, action.lane, ours, rig.out);
        rig.settle();
      }
      for (const WorkRequest& work : rig.take_work()) {
        if (work.opcode != Opcode::send) {
          reads.push_back(work);
          continue;
        }
        more = true;
        if (rig.header_of(work).kind == wire::FrameKind::lane_end) {
          told.push_back(wire::get_lane_end(reinterpret_cast<const std::byte*>(work.address) +
                                            wire::frame_header_bytes));
        }
        rig.complete(work);
      }
    }
  }

  // The peer joins what we have offered, with pairs of ten times the number.
  void join_all() {
    for (const wire::LaneEnd& end : std::exchange(told, {})) {
      if (end.qp_number == 0 || end.joined) continue;
      hear({.qp_number = 10 * end.qp_number,
            .psn = 1,
            .reads = 4,
            .joined = true,
            .number = end.number});
    }
    told.clear();
  }

  // All lanes there are work.
  void open() {
    get(64 * KiB);
    join_all();
    finish();
    rig.out.transfers.clear();
  }

  void finish() {
    while (!reads.empty()) {
      for (const WorkRequest& read : std::exchange(reads, {})) rig.complete(read);
      settle();
    }
  }
  void complete_on(std::uint8_t number, CompletionStatus status = CompletionStatus::success) {
    const auto found = std::find_if(reads.begin(), reads.end(), [&](const WorkRequest& read) {
      return number_of[read.lane] == number;
    });
    ASSERT_NE(found, reads.end());
    const WorkRequest read = *found;
    reads.erase(found);
    rig.complete(read, status);
    settle();
  }
  std::map<int, int> chunks_by_number() {
    std::map<int, int> count;
    for (const WorkRequest& read : reads) ++count[number_of[read.lane]];
    return count;
  }

  Rig rig;
  PeerId peer;
  LaneId frames;
  std::uint32_t pairs = 100;
  std::set<std::uint8_t> fails;  // lanes whose pairs cannot be made
  std::map<LaneId, int> number_of;
  std::vector<WorkRequest> reads;
  std::vector<wire::LaneEnd> told;
  std::set<LaneId> dropped;
};

TEST_F(Paths, ALargeGetAsksForThemAndASmallOneDoesNot) {
  get(63 * KiB);
  ASSERT_EQ(told.size(), 1u);  // the first, for the fetches of Soft-RoCE
  EXPECT_EQ(told[0].number, 0);
  get(64 * KiB);
  ASSERT_EQ(told.size(), 4u);
  for (std::uint8_t i = 0; i < 4; ++i) EXPECT_EQ(told[i].number, i);
  get(64 * KiB);
  EXPECT_EQ(told.size(), 4u);
}

TEST_F(Paths, ChunksGoOverAllOfThemAndNoChainIsMade) {
  open();
  get(192 * KiB, 5);
  EXPECT_EQ(chunks_by_number(), (std::map<int, int>{{1, 4}, {2, 4}, {3, 4}}));
  for (const WorkRequest& read : reads) EXPECT_TRUE(read.signalled);
  get(512, 6);
  EXPECT_EQ(chunks_by_number()[0], 0) << "as many as the pairs may have are under way";
  finish();
  EXPECT_EQ(rig.out.transfers.size(), 2u);
  get(8, 7, Opcode::fetch_add);
  EXPECT_EQ(chunks_by_number(), (std::map<int, int>{{0, 1}})) << "atomics keep to one lane";
}

struct OldPeer : Paths {
  OldPeer() : Paths(3, 0) {}
};
TEST_F(OldPeer, IsAskedForNone) {
  open();
  get(192 * KiB);
  EXPECT_EQ(chunks_by_number().count(1), 0u);
  EXPECT_TRUE(told.empty());
}

struct OnePath : Paths {
  OnePath() : Paths(1) {}
};
TEST_F(OnePath, JoinsWhatThePeerWantsAndUsesNoneOfIt) {
  open();
  hear({.qp_number = 77, .psn = 1, .reads = 4, .number = 2});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].joined);
  EXPECT_EQ(told[0].number, 2);
  hear({.qp_number = 77, .psn = 1, .reads = 4, .joined = true, .number = 2});
  get(192 * KiB);
  EXPECT_EQ(chunks_by_number().size(), 1u);
  EXPECT_GT(chunks_by_number()[0], 0);
}

// Its chunks go over the others, and only when its queue pair is destroyed.
TEST_F(Paths, OneThatBreaksIsLeftAndTheConnectionGoesOn) {
  open();
  get(192 * KiB, 5);
  std::set<std::uint64_t> lost;
  LaneId lane = LaneId::none;
  for (const WorkRequest& read : reads) {
    if (number_of[read.lane] != 2) continue;
    lost.insert(read.address);
    lane = read.lane;
  }
  const WorkRequest first = *std::find_if(
      reads.begin(), reads.end(), [&](const WorkRequest& read) { return read.lane == lane; });
  rig.complete(first, CompletionStatus::retry_exc_err);
  EXPECT_TRUE(std::none_of(rig.out.work.begin(), rig.out.work.end(),
                           [](const WorkRequest& work) { return work.opcode == Opcode::read; }));
  rig.complete(first, CompletionStatus::wr_flush_err);  // the others, while it is destroyed
  settle();
  EXPECT_EQ(dropped, std::set<LaneId>{lane});
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
  EXPECT_EQ(rig.core.counters().lanes_left, 1u);
  EXPECT_EQ(rig.core.counters().chunks_again, 4u);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].qp_number, 0u);
  EXPECT_EQ(told[0].number, 2);
  EXPECT_EQ(told[0].psn, 10u * 103u) << "the pair that the peer has lost";
  reads.erase(std::remove_if(reads.begin(), reads.end(),
                             [&](const WorkRequest& read) { return read.lane == lane; }),
              reads.end());
  for (int i = 0; i < 8; ++i) complete_on(i % 2 == 0 ? 1 : 3);
  std::set<std::uint64_t> again;
  for (const WorkRequest& read : reads) again.insert(read.address);
  EXPECT_EQ(again, lost);
  EXPECT_TRUE(rig.out.transfers.empty());
  finish();
  ASSERT_EQ(rig.out.transfers.size(), 1u);
  EXPECT_TRUE(rig.out.transfers[0].ok);
  EXPECT_TRUE(rig.core.conserved());
}

TEST_F(Paths, AnErrorOfTheWorkIsNotTheLanes) {
  open();
  get(192 * KiB);
  complete_on(2, CompletionStatus::rem_access_err);
  EXPECT_EQ(rig.core.state(peer), PeerState::failed);
  EXPECT_TRUE(rig.core.conserved());
}

TEST_F(Paths, ASlowOneIsLeftAndThereIsAnotherOneAfterAPause) {
  open();
  get(192 * KiB, 5);
  rig.now = rig.now + milliseconds(10);
  for (int i = 0; i < 4; ++i) {
    complete_on(1);
    complete_on(3);
  }
  const Time due = rig.core.next_deadline();
  EXPECT_LE(due, rig.now + milliseconds(25));
  rig.now = rig.now + milliseconds(35);
  rig.core.on_timer(rig.now, rig.out);
  settle();
  EXPECT_TRUE(dropped.empty());
  rig.now = rig.now + milliseconds(25);
  rig.core.on_timer(rig.now, rig.out);
  settle();
  EXPECT_EQ(dropped.size(), 1u);
  EXPECT_EQ(rig.core.counters().lanes_left, 1u);
  reads.erase(std::remove_if(reads.begin(), reads.end(),
                             [&](const WorkRequest& read) { return number_of[read.lane] == 2; }),
              reads.end());
  EXPECT_EQ(chunks_by_number().size(), 2u);
  finish();
  told.clear();
  get(64 * KiB);
  EXPECT_TRUE(told.empty());
  finish();
  rig.now = rig.now + milliseconds(500);
  get(64 * KiB);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].number, 2);
  EXPECT_NE(told[0].qp_number, 0u);
  join_all();
  finish();
  EXPECT_TRUE(rig.core.conserved());
}

TEST_F(Paths, WhatThePeerLeavesIsLeftAndItsNextOfferTaken) {
  open();
  get(192 * KiB);
  hear({.psn = 103, .number = 2});
  EXPECT_EQ(dropped.size(), 1u);
  EXPECT_TRUE(told.empty()) << "it knows";
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
  hear({.psn = 103, .number = 2});  // both left at the same time: old news
  hear({.qp_number = 55, .psn = 1, .reads = 4, .number = 2});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].joined);
  EXPECT_EQ(told[0].number, 2);
}

TEST_F(Paths, AnOfferInPlaceOfOneThatWasJoinedSaysThatItWasLeft) {
  open();
  get(192 * KiB);
  hear({.qp_number = 55, .psn = 1, .reads = 4, .number = 2});
  EXPECT_EQ(dropped.size(), 1u);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].joined);
}

TEST_F(Paths, OneThatCannotBeMadeIsDoneWithout) {
  fails = {2};
  open();
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
  get(128 * KiB);
  EXPECT_EQ(chunks_by_number(), (std::map<int, int>{{1, 4}, {3, 4}}));
  EXPECT_TRUE(told.empty());  // the peer has heard of nothing
  hear({.qp_number = 55, .psn = 1, .reads = 4, .number = 2});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].qp_number, 0u);
  EXPECT_EQ(told[0].psn, 55u);
  hear({.qp_number = 55, .psn = 1, .reads = 4, .joined = true, .number = 2});  // crossed
  EXPECT_EQ(rig.core.state(peer), PeerState::ready);
}

TEST_F(Paths, WhatThePeerRefusesIsAskedForAgainAfterAPause) {
  get(64 * KiB);
  for (const wire::LaneEnd& end : std::exchange(told, {})) {
    if (end.number == 0) {
      hear({.qp_number = 9, .psn = 1, .reads = 4, .joined = true});
    } else {
      hear({.psn = end.qp_number, .number = end.number});
    }
  }
  EXPECT_EQ(dropped.size(), 3u);
  told.clear();
  finish();
  get(64 * KiB);
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(chunks_by_number()[0], 4);
  rig.now = rig.now + milliseconds(500);
  get(64 * KiB);
  EXPECT_EQ(told.size(), 3u);
}

// As with the connection, but what is left is known at once.
TEST_F(Paths, AConnectionThatBreaksTakesAllOfThem) {
  open();
  get(192 * KiB, 5);
  complete_on(2, CompletionStatus::retry_exc_err);
  reads.clear();
  rig.core.on_lane_error(rig.now, frames, rig.out);
  const auto actions = rig.take_connects();
  const auto drops = std::count_if(actions.begin(), actions.end(), [](const ConnectAction& action) {
    return action.kind == Kind::drop;
  });
  EXPECT_EQ(drops, 4) << "frames, the first, and two further ones: one was gone";
  EXPECT_EQ(rig.core.chunks_under_way(), 0u);
  EXPECT_TRUE(rig.core.conserved());
}

// The peer is given up while the drop of a lane that was left is not carried out.
TEST_F(Paths, NoLaneIsDroppedTwice) {
  open();
  get(192 * KiB, 5);
  const auto found = std::find_if(reads.begin(), reads.end(), [&](const WorkRequest& read) {
    return number_of[read.lane] == 2;
  });
  rig.complete(*found, CompletionStatus::retry_exc_err);
  const auto other_read = std::find_if(reads.begin(), reads.end(), [&](const WorkRequest& read) {
    return number_of[read.lane] == 1;
  });
  rig.complete(*other_read, CompletionStatus::rem_access_err);
  EXPECT_EQ(rig.core.state(peer), PeerState::failed);
  std::map<LaneId, int> drops;
  for (const ConnectAction& action : rig.take_connects()) {
    if (action.kind == Kind::drop) ++drops[action.lane];
  }
  EXPECT_EQ(drops.size(), 5u);
  for (const auto& [lane, count] : drops) EXPECT_EQ(count, 1);
  EXPECT_EQ(rig.core.chunks_under_way(), 0u);
  EXPECT_TRUE(rig.core.conserved());
}

}  // namespace
}  // namespace weir
