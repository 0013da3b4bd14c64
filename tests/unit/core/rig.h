// One core on the bench: real memory below it, and a peer played by the test, frame by frame.
// `settle` does what an engine does with the values in the box that need an answer; the rest stays
// in the box for the test to look at.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/core/core.h"

namespace weir::rig {

inline constexpr PeerName self{1, 5};
inline constexpr PeerName other{1, 9};   // greater than self
inline constexpr PeerName lesser{1, 2};  // smaller than self
inline constexpr std::uint32_t KiB = 1024;

inline TransferRequest transfer_of(PeerId peer, Opcode opcode, std::uint64_t bytes,
                                   std::uint64_t token) {
  return {.kind = opcode == Opcode::write ? TransferKind::put : TransferKind::get,
          .peer = peer,
          .remote_address = 0x100000,
          .local_address = 0x900000,
          .length_bytes = bytes,
          .lkey = 3,
          .rkey = 7,
          .token = token,
          .opcode = opcode};
}

inline Core::Config small_config() {
  Core::Config config;
  config.self = self;
  config.key = {5, 5, 5};
  config.buffer_bytes = 1024;
  config.window = {.initial = 16, .max = 64};
  config.credits = {.control_reserve = 2, .min_credits = 2, .max_credits = 8};
  config.queue = {.depth = 16, .control_reserve = 4, .signal_interval = 4, .signal_bytes = 32768};
  config.inline_bytes = 64;
  config.bundle_bytes = 512;
  config.bundle_message_bytes = 128;
  config.burst_frames = config.flood_messages = 2;
  config.pending_frames = 10;
  return config;
}

// Rules of the connector's table that any rig has taken (connector_table_test.cc).
inline std::array<bool, connection_table::count>& rules_taken() {
  static std::array<bool, connection_table::count> taken{};
  return taken;
}
inline void note_rules(const std::array<bool, connection_table::count>& taken) {
  for (std::size_t i = 0; i < taken.size(); ++i) rules_taken()[i] |= taken[i];
}

class Rig {
 public:
  ~Rig() { note_rules(core.rules_taken()); }
  explicit Rig(const Core::Config& config = small_config()) : core(config) {
    core.start(out);
    settle();
    out.arm = false;
  }

  // Slabs and control slots are provided, receives are taken as posted.
  void settle() {
    while (out.slab_buffers > 0) {
      const std::uint32_t count = out.slab_buffers;
      out.slab_buffers = 0;
      if (slab_fails) {
        core.on_slab_failed(out);
        continue;
      }
      slabs.push_back(
          std::make_unique<std::byte[]>(std::size_t{count} * core.config().buffer_bytes));
      core.on_slab(reinterpret_cast<std::uint64_t>(slabs.back().get()), 3, count, out);
    }
    for (const ReceivePost& post : out.receives) posted.push_back(post);
    out.receives.clear();
    while (core.lacks_control_slots()) core.lend_control_slot(slot());
  }

  SendSlot* slot(bool notify = false) {
    memory.push_back(std::make_unique<std::byte[]>(1024));
    slots.emplace_back();
    slots.back().frame = memory.back().get();
    slots.back().capacity_bytes = 1024;
    slots.back().lkey = 9;
    slots.back().notify = notify;
    return &slots.back();
  }

  Status send(PeerId peer, std::uint32_t length = 8, bool must_take = false, bool notify = false) {
    const Status status = core.send(now, peer, slot(notify), length, 7, must_take, out);
    settle();
    return status;
  }

  std::vector<WorkRequest> take_work() { return std::exchange(out.work, {}); }
  // Drops count as carried out.
  std::vector<ConnectAction> take_connects() {
    for (std::size_t i = 0; i < out.connects.size(); ++i) {
      const ConnectAction action = out.connects[i];  // a lane that is fenced asks for the next one
      if (action.kind == ConnectAction::Kind::drop) core.on_dropped(now, action.lane, out);
    }
    return std::exchange(out.connects, {});
  }
  std::vector<Delivery> take_deliveries() { return std::exchange(out.deliveries, {}); }
  std::vector<Retired> take_retired() { return std::exchange(out.retired, {}); }
  std::vector<Failure> take_failures() { return std::exchange(out.failures, {}); }

  wire::FrameHeader header_of(const WorkRequest& work) const {
    return wire::get_frame_header(reinterpret_cast<const std::byte*>(work.address));
  }

  // A request of the peer; each is a new attempt.
  wire::Hello hello(PeerName from, std::uint16_t credits = 4) {
    return {.from = from,
            .to = self,
            .buffer_bytes = core.config().buffer_bytes,
            .credits = credits,
            .control_credits = 2,
            .key = core.config().key,
            .attempt = ++attempts};
  }

  // The peer's answer to our request.
  wire::Hello answer(const ConnectAction& request, std::uint16_t credits = 4) {
    wire::Hello hello = this->hello(request.hello.to, credits);
    hello.key = request.hello.key;
    hello.attempt = request.hello.attempt;
    return hello;
  }

  // We ask, the peer answers. Returns the lane.
  LaneId connect(PeerId peer, std::uint16_t credits = 4) {
    EXPECT_EQ(send(peer), Status::ok);
    const auto connects = take_connects();
    EXPECT_EQ(connects.size(), 1u);
    core.on_answer(now, connects.at(0).lane, answer(connects.at(0), credits), out);
    settle();
    EXPECT_EQ(core.state(peer), PeerState::ready);
    granted = connects.at(0).hello.credits;
    return connects.at(0).lane;
  }

  // The peer asks, and confirms.
  LaneId accept(PeerName from, std::uint16_t credits = 4) {
    core.on_request(now, RequestId{++requests}, hello(from, credits), out);
    settle();
    const auto connects = take_connects();
    const LaneId lane = connects.back().lane;
    EXPECT_EQ(connects.back().kind, ConnectAction::Kind::accept);
    granted = connects.back().hello.credits;
    core.on_established(now, lane, out);
    settle();
    return lane;
  }

  // Bytes arrive in the oldest posted buffer.
  void arrive_bytes(LaneId lane, const std::vector<std::byte>& bytes,
                    CompletionStatus status = CompletionStatus::success) {
    ASSERT_FALSE(posted.empty());
    const ReceivePost post = posted.front();
    posted.pop_front();
    if (!bytes.empty()) {
      std::memcpy(reinterpret_cast<void*>(post.address), bytes.data(), bytes.size());
    }
    core.on_completion(now,
                       {Opcode::receive, status, static_cast<std::uint32_t>(bytes.size()), lane,
                        index(post.buffer)},
                       out);
    settle();
  }

  // The next frame of the peer on its lane.
  void arrive(LaneId lane, wire::FrameHeader header, std::uint32_t messages = 1) {
    header.sequence = sequence++;
    std::vector<std::byte> frame(wire::frame_header_bytes);
    if (header.kind == wire::FrameKind::messages) {
      for (std::uint32_t i = 0; i < messages; ++i) {
        const std::size_t start = frame.size();
        frame.resize(start + wire::message_bytes(8));
        wire::put(&frame[start], wire::MessageHeader{8, static_cast<std::uint8_t>(i)});
      }
    }
    wire::put(frame.data(), header);
    arrive_bytes(lane, frame);
  }

  void complete(const WorkRequest& work, CompletionStatus status = CompletionStatus::success) {
    core.on_completion(now, {Opcode::send, status, 0, work.lane, work.id}, out);
    settle();
  }

  void pump() {
    core.pump(now, out);
    core.give_back_credits(out);
    settle();
  }

  Outbox out;
  Core core;
  Time now{1000};
  bool slab_fails = false;
  std::deque<ReceivePost> posted;
  std::deque<SendSlot> slots;
  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::vector<std::unique_ptr<std::byte[]>> slabs;
  std::uint32_t sequence = 0;  // of the peer's frames
  std::uint32_t granted = 0;   // credits that our greeting carried
  std::uint64_t requests = 0;
  std::uint64_t attempts = 0;
};

}  // namespace weir::rig
