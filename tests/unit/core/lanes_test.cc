// The table of lanes, and the one of peers, by themselves.
#include "transport/core/lanes.h"

#include <gtest/gtest.h>

#include <vector>

#include "transport/core/peer.h"

namespace weir {
namespace {

struct Lost final : Lanes::Listener {
  std::vector<SendSlot*> frames;
  std::vector<std::uint32_t> chunks;

  void on_frame_released(SendSlot* slot, bool, Outbox&) override { frames.push_back(slot); }
  void on_chunk_lost(const RdmaInFlight& chunk) override { chunks.push_back(chunk.bytes); }
};

struct Table {
  Lost lost;
  Lanes lanes{{.depth = 16, .control_reserve = 4, .signal_interval = 2, .signal_bytes = 65536},
              lost};
  Outbox out;
};

TEST(Lanes, AReleasedLaneTellsOfAllThatIsInFlightOnce) {
  Table table;
  const LaneId id = table.lanes.make(PeerId{3}, LaneUse::frames);
  SendSlot done;
  SendSlot lost;
  SendQueue& queue = table.lanes[id].queue;
  queue.post(&done);
  const WorkId signalled = queue.post(&done).id;
  RdmaInFlight chunk{};
  chunk.bytes = 77;
  queue.post_rdma(chunk, true);
  queue.post(&lost);
  ASSERT_TRUE(queue.retire(
      signalled, [](SendSlot*) {}, [](const RdmaInFlight&) {}));
  table.lanes.release(id, false, table.out);
  EXPECT_EQ(table.lost.frames, (std::vector<SendSlot*>{&lost}));
  EXPECT_EQ(table.lost.chunks, (std::vector<std::uint32_t>{77}));
  ASSERT_EQ(table.out.connects.size(), 1u);
  EXPECT_EQ(table.out.connects[0].kind, ConnectAction::Kind::drop);
  EXPECT_EQ(table.out.connects[0].lane, id);
  EXPECT_EQ(table.lanes.open(id), nullptr);
}

TEST(Lanes, AnIdIsAnothersOnlyOnceTheQueuePairIsGone) {
  Table table;
  const LaneId first = table.lanes.make(PeerId{1}, LaneUse::frames);
  table.lanes.release(first, false, table.out);
  EXPECT_NE(table.lanes.make(PeerId{2}, LaneUse::frames), first);
  table.lanes.on_destroyed(first);
  EXPECT_EQ(table.lanes.make(PeerId{4}, LaneUse::frames), first);
  ASSERT_NE(table.lanes.open(first), nullptr);
  EXPECT_EQ(table.lanes[first].peer, PeerId{4});
  EXPECT_EQ(table.lanes[first].tx_sequence, 0u);
}

TEST(Lanes, WhatIsNoLaneIsNotOpen) {
  Table table;
  EXPECT_EQ(table.lanes.open(LaneId::none), nullptr);
  EXPECT_EQ(table.lanes.open(LaneId{0}), nullptr);
}

TEST(Lanes, ALaneForFetchesIsAsDeepAsKeepsTheAdapterBusy) {
  Table table;
  EXPECT_EQ(table.lanes.fetch_depth(), 8u);
  const LaneId id = table.lanes.make(PeerId{1}, LaneUse::fetches);
  SendQueue& queue = table.lanes[id].queue;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(queue.has_room(false)) << i;
    queue.post_rdma({}, false);
  }
  EXPECT_FALSE(queue.has_room(true));
}

TEST(Peers, ANameHasOneRecord) {
  Peers peers;
  EXPECT_EQ(peers.find({1, 2}), PeerId::none);
  Peer& first = peers.find_or_make({1, 2});
  Peer& second = peers.find_or_make({2, 1});
  EXPECT_NE(first.id, second.id);
  for (std::uint32_t rank = 10; rank < 500; ++rank) peers.find_or_make({1, rank});
  EXPECT_EQ(&peers.find_or_make({1, 2}), &first);  // records stay where they are
  EXPECT_EQ(peers.find({2, 1}), second.id);
  EXPECT_EQ(peers.size(), 492u);
}

}  // namespace
}  // namespace weir
