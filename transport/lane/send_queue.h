// The send queue of one lane: which slots are in flight, when a work request asks for a
// completion, and which slots a completion retires.
//
// An RC send queue completes in order, so one completion retires everything posted before it
// [IBTA 10.8.5]. A few entries are kept back for control frames, which can therefore never be
// starved by data.
//
// Pure; the caller serialises.
#pragma once

#include <cstdint>

#include "base/ring.h"
#include "base/time.h"
#include "base/work.h"
#include "transport/lane/send_slot.h"

namespace weir {

// A chunk of a get or put, or an atomic, in flight.
struct RdmaInFlight {
  TransferId transfer;
  std::uint64_t offset = 0;  // in the transfer
  Time posted;
  std::uint32_t bytes;
  std::uint16_t tokens = 0;  // tokens of the node
  bool chained : 1 = false;
  bool timed : 1 = true;         // else `posted` is not set
  std::uint8_t lane_number = 0;  // as the lane's (core/lanes.h)
};

class SendQueue {
 public:
  struct Config {
    std::uint32_t depth = 128;           // work requests the queue pair takes
    std::uint32_t control_reserve = 4;   // of depth, for control frames only
    std::uint32_t signal_interval = 16;  // most frames without a completion
    std::uint32_t signal_bytes = 32768;  // most bytes of slots without a completion
    bool signal_ends = false;            // a completion for each chain, so that its end is known
  };

  explicit SendQueue(const Config& config)
      : config_(config), in_flight_(config.depth), rdma_(config.depth) {}

  bool has_room(bool control) const {
    const std::uint32_t room = config_.depth - static_cast<std::uint32_t>(in_flight_.size());
    return room > (control ? 0 : config_.control_reserve);
  }

  struct Posted {
    WorkId id;
    bool signalled;
    bool full = false;  // there is room for control frames only now
  };

  // Takes a probe into flight: it has no slot and is always signalled. There must be room.
  WorkId post_probe() {
    in_flight_.push(nullptr);
    mark_signalled();
    return posted_++;
  }

  // Takes a chunk into flight; it has no slot. There must be room.
  Posted post_rdma(const RdmaInFlight& chunk, bool must_signal) {
    in_flight_.push(&rdma_slot);
    rdma_.push(chunk);
    const bool signalled = must_signal || ++unsignalled_frames_ >= config_.signal_interval;
    if (signalled) mark_signalled();
    return {posted_++, signalled};
  }

  // Takes `slot` into flight. There must be room. `ends_chain`: nothing follows in its chain.
  Posted post(SendSlot* slot, bool ends_chain = false) {
    in_flight_.push(slot);
    ++unsignalled_frames_;
    unsignalled_bytes_ += slot->capacity_bytes;
    unsignalled_notify_ = unsignalled_notify_ || slot->notify;
    const bool full = !has_room(false);
    const bool signalled = unsignalled_frames_ >= config_.signal_interval ||
                           unsignalled_bytes_ >= config_.signal_bytes ||
                           (ends_chain && is_awaited(full));
    if (signalled) mark_signalled();
    return {posted_++, signalled, full};
  }

  // Whether the last work request of a chain must ask for a completion before an interval is over:
  // somebody waits to hear of a slot in it, or the queue is full.
  bool wants_signal() const { return unsignalled_frames_ > 0 && is_awaited(!has_room(false)); }

  // The last work request posted was made signalled afterwards.
  void mark_signalled() {
    unsignalled_frames_ = 0;
    unsignalled_bytes_ = 0;
    unsignalled_notify_ = false;
  }

  // A completion for work request `id`: calls `retired(slot)` or `rdma(chunk)` for it and all work
  // requests before it (nothing for probes). False if `id` was never posted or is already retired.
  template <typename F, typename G>
  bool retire(WorkId id, F&& retired, G&& rdma) {
    if (id >= posted_ || id < retired_) return false;
    while (retired_ <= id) pop(retired, rdma);
    return true;
  }

  // The chunk that work request `id` is; nullptr if it is none, or not in flight.
  const RdmaInFlight* find_chunk(WorkId id) const {
    if (id >= posted_ || id < retired_ || in_flight_[id - retired_] != &rdma_slot) return nullptr;
    std::size_t before = 0;
    for (std::size_t i = 0; i < id - retired_; ++i) before += in_flight_[i] == &rdma_slot ? 1 : 0;
    return &rdma_[before];
  }

  template <typename F>
  bool retire(WorkId id, F&& retired) {
    return retire(id, retired, [](const RdmaInFlight&) {});
  }

  // The lane is gone: hands back its work in flight. (The scheduler knows the chunks' transfers.)
  template <typename F, typename G>
  void abandon(F&& retired, G&& rdma) {
    while (!in_flight_.empty()) pop(retired, rdma);
    mark_signalled();
  }

  bool empty() const { return in_flight_.empty(); }
  std::size_t in_flight() const { return in_flight_.size(); }
  std::uint64_t posted() const { return posted_; }
  std::uint64_t retired() const { return retired_; }

  // Signalled work requests have not completed yet: silence here means a stalled lane.
  bool awaits_completion() const { return in_flight_.size() > unsignalled_frames_; }

 private:
  // Somebody waits for the end of a chain that has unsignalled frames.
  bool is_awaited(bool full) const { return config_.signal_ends || unsignalled_notify_ || full; }

  template <typename F, typename G>
  void pop(F& retired, G&& rdma) {
    ++retired_;
    SendSlot* const slot = in_flight_.pop();
    if (slot == &rdma_slot) [[unlikely]] {
      rdma(rdma_.pop());
    } else if (slot != nullptr) {
      retired(slot);
    }
  }

  // Stands for a chunk; the chunk itself is in `rdma_`, in the same order.
  static inline SendSlot rdma_slot{};

  Config config_;
  Ring<SendSlot*> in_flight_;
  Ring<RdmaInFlight> rdma_;
  std::uint64_t posted_ = 0;
  std::uint64_t retired_ = 0;
  std::uint32_t unsignalled_frames_ = 0;
  std::uint32_t unsignalled_bytes_ = 0;
  bool unsignalled_notify_ = false;
};

}  // namespace weir
