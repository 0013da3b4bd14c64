// The rooms of a core without the core: nothing is routed, no frame arrives, and who would hear of
// something is the test, which keeps it. One room is looked at by itself, with those it stands on.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/core/rig.h"
#include "transport/core/connector.h"
#include "transport/core/lanes.h"
#include "transport/core/peer.h"
#include "transport/core/receiver.h"
#include "transport/core/sender.h"

namespace weir::rig {

class Rooms : private Lanes::Listener,
              private Receiver::Listener,
              private Sender::Listener,
              private Connector::Listener {
 public:
  explicit Rooms(const CoreConfig& settings = small_config())
      : config(settings),
        lanes(config.queue, *this),
        receiver(config, counters, *this),
        sender(config, counters, peers, lanes, receiver, *this),
        connector(config, counters, peers, lanes, receiver, sender, *this) {
    receiver.start(out);
    settle();
  }
  ~Rooms() { note_rules(connector.taken()); }

  // Memory is provided, receives are taken as posted, control slots are lent, drops carried out.
  void settle() {
    while (out.slab_buffers > 0) {
      const std::uint32_t count = std::exchange(out.slab_buffers, 0);
      memory_.push_back(std::make_unique<std::byte[]>(std::size_t{count} * config.buffer_bytes));
      receiver.on_slab(reinterpret_cast<std::uint64_t>(memory_.back().get()), 3, count, out);
    }
    out.receives.clear();
    while (sender.lacks_control_slots()) sender.lend_control_slot(slot());
  }

  Peer& add(PeerName name) {
    Peer& peer = peers.find_or_make(name);
    connector.set_card(peer, {.port = 1, .key = config.key});
    return peer;
  }

  // We ask, the peer answers with so many credits.
  Peer& connect(PeerName name, std::uint16_t credits, std::uint8_t control_credits = 2) {
    Peer& peer = add(name);
    connector.connect(now, peer, out);
    settle();
    answer(peer, credits, control_credits);
    return peer;
  }
  void answer(Peer& peer, std::uint16_t credits, std::uint8_t control_credits = 2) {
    const ConnectAction request = take_connects().at(0);
    wire::Hello hello{.from = peer.name,
                      .to = config.self,
                      .buffer_bytes = config.buffer_bytes,
                      .credits = credits,
                      .control_credits = control_credits,
                      .key = request.hello.key,
                      .attempt = request.hello.attempt};
    hello.fetches = 2;
    connector.on_answer(now, request.lane, hello, out);
    settle();
    EXPECT_EQ(peer.connection.state(), PeerState::ready);
  }

  SendSlot* slot() {
    memory_.push_back(std::make_unique<std::byte[]>(1024));
    SendSlot& slot = slots_.emplace_back();
    slot.frame = memory_.back().get();
    slot.capacity_bytes = 1024;
    return &slot;
  }
  // A message that is too large to be joined by others.
  SendSlot* send(Peer& peer) {
    SendSlot* const taken = slot();
    EXPECT_EQ(sender.send(now, peer, taken, 600, 7, false, out), Status::ok);
    settle();
    return taken;
  }

  std::vector<WorkRequest> take_work() { return std::exchange(out.work, {}); }
  std::vector<ConnectAction> take_connects() { return std::exchange(out.connects, {}); }
  std::vector<std::string> take_told() { return std::exchange(told, {}); }
  // The lane has done what was posted up to this.
  void retire(const WorkRequest& work) {
    const auto done = [this](SendSlot* slot) {
      if (slot->kind != wire::FrameKind::messages || slot->messages == 0) sender.take_back(slot);
    };
    EXPECT_TRUE(lanes[work.lane].queue.retire(
        work.id, done, [this](const RdmaInFlight& chunk) { chunks_done.push_back(chunk); }));
  }
  static wire::FrameHeader header_of(const WorkRequest& work) {
    return wire::get_frame_header(reinterpret_cast<const std::byte*>(work.address));
  }

  CoreConfig config;
  Counters counters;
  Peers peers;
  Lanes lanes;
  Receiver receiver;
  Sender sender;
  Connector connector;
  Outbox out;
  Time now{1000};
  bool work_waits = false;  // what the connector is told if it asks
  std::vector<std::string> told;
  std::vector<SendSlot*> frames_lost;
  std::vector<SendSlot*> frames_delivered;  // with the lane
  std::vector<RdmaInFlight> chunks_done;
  std::vector<RdmaInFlight> chunks_lost;

 private:
  void on_frame_released(SendSlot* slot, bool delivered, Outbox&) override {
    (delivered ? frames_delivered : frames_lost).push_back(slot);
  }
  void on_chunk_lost(const RdmaInFlight& chunk) override { chunks_lost.push_back(chunk); }
  void on_shares_changed(Outbox&) override {}
  void on_shares_exceeded(Outbox&) override {}
  void on_queue_full(Peer&) override { told.emplace_back("queue full"); }
  bool has_work(const Peer&) const override { return work_waits; }
  void describe_transfers(const Peer&, Failure&) const override {}
  bool may_part(const Peer&) const override { return !work_waits; }
  void on_paused(Peer&) override { told.emplace_back("paused"); }
  void on_broken(Peer&, Outbox&) override { told.emplace_back("broken"); }
  void on_settled(SendSlot*, bool, Outbox&) override { told.emplace_back("settled"); }
  void on_ready(const Now&, Peer&, Outbox&) override { told.emplace_back("ready"); }
  void on_lane_ends(Peer& peer, Outbox&) override {
    EXPECT_NE(lanes.open(peer.connection.lane()), nullptr);
    told.emplace_back("lane ends");
  }
  void on_gone(const Now&, Peer& peer, Outbox&) override {
    EXPECT_EQ(peer.connection.lane(), LaneId::none);
    told.emplace_back("gone");
  }

  std::deque<SendSlot> slots_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

}  // namespace weir::rig
