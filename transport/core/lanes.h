// The lanes of a process: the RC queue pairs to its peers, each with its work in flight.
//
// A lane's id is reused only once nothing can name the old queue pair any more (`on_destroyed`).
// Everything posted on a lane is reported exactly once: to the visitor of its completion, to the
// listener if the lane was released before, or to the visitors of `close_fenced`.
//
// Pure; the caller serialises. Only `make` allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/stable_vector.h"
#include "transport/core/outbox.h"
#include "transport/lane/send_queue.h"

namespace weir {

enum class LaneUse : std::uint8_t {
  frames,   // everything for the peer; connection management made it
  fetches,  // gets and atomics only (fetch_lanes.h)
};

// What the watch has seen of a lane (watch.h).
class Watched {
  friend class Watch;
  std::uint8_t looks_left_ = 0;  // until work in flight is overdue
  std::uint64_t retired_ = 0;    // work requests retired when that count began
  std::uint64_t heard_ = 0;      // signs of life up to the last look
};

struct Lane {
  PeerId peer = PeerId::none;
  LaneUse use = LaneUse::frames;
  std::uint8_t number = 0;  // of a lane for fetches; from 1 on, of a further one (fetch_lane.h)
  bool open = false;
  std::uint32_t tx_sequence = 0;  // number of the next frame
  std::uint32_t rx_sequence = 0;
  SendQueue queue;
  Watched watched;

  explicit Lane(const SendQueue::Config& config) : queue(config) {}
};

class Lanes {
 public:
  // Hears of the work in flight of released lanes.
  class Listener {
   public:
    virtual void on_frame_released(SendSlot* slot, bool delivered, Outbox& out) = 0;
    virtual void on_chunk_lost(const RdmaInFlight& chunk) = 0;

   protected:
    ~Listener() = default;
  };

  // `queue` is for lanes for frames. The listener outlives this.
  Lanes(const SendQueue::Config& queue, Listener& listener) : frames_(queue), listener_(listener) {
    fetches_ = queue;
    fetches_.depth = fetch_depth();
    fetches_.control_reserve = 0;
  }

  // The most work requests in the queue of a lane for fetches. They keep the adapter busy until
  // software looks again. More would only delay other work, which posted work does not let pass.
  std::uint32_t fetch_depth() const {
    return std::min(std::max(4 * frames_.signal_interval, 2u), frames_.depth);
  }

  LaneId make(PeerId peer, LaneUse use, std::uint8_t number = 0) {
    const SendQueue::Config& config = use == LaneUse::frames ? frames_ : fetches_;
    LaneId id;
    if (free_.empty()) {
      id = LaneId{lanes_.size()};
      lanes_.emplace_back(config);
    } else {
      id = free_.back();
      free_.pop_back();
      (*this)[id] = Lane(config);
    }
    Lane& lane = (*this)[id];
    lane.peer = peer;
    lane.use = use;
    lane.number = number;
    lane.open = true;
    return id;
  }

  // Reports all work in flight, and asks for the queue pair to be destroyed. `delivered`: the
  // frames are known to have arrived.
  void release(LaneId id, bool delivered, Outbox& out) {
    give_up(id, delivered, out);
    out.act({.kind = ConnectAction::Kind::drop, .peer = (*this)[id].peer, .lane = id});
  }
  // The same for a lane whose queue pair is about to be destroyed anyway: `fence` asked for it.
  void abandon(LaneId id, Outbox& out) { give_up(id, false, out); }

  // The fence: asks for the queue pair to be destroyed, and takes its completions until that is
  // done. Then call `close_fenced`.
  void fence(LaneId id, Outbox& out) {
    out.act({.kind = ConnectAction::Kind::drop, .peer = (*this)[id].peer, .lane = id});
  }
  // Hands over the frames and chunks that did not complete, oldest first.
  template <typename OnFrame, typename OnChunk>
  void close_fenced(LaneId id, OnFrame&& frame, OnChunk&& chunk) {
    Lane& lane = (*this)[id];
    lane.queue.abandon(frame, chunk);
    lane.open = false;
  }

  // The queue pair is destroyed: its completions and events cannot come any more.
  void on_destroyed(LaneId id) { free_.push_back(id); }

  Lane& operator[](LaneId id) { return lanes_[index(id)]; }
  const Lane& operator[](LaneId id) const { return lanes_[index(id)]; }
  Lane& at(std::uint32_t i) { return lanes_[i]; }
  const Lane& at(std::uint32_t i) const { return lanes_[i]; }

  // The lane; nullptr if it never was one, or was released.
  Lane* open(LaneId id) {
    if (index(id) >= lanes_.size() || !(*this)[id].open) return nullptr;
    return &(*this)[id];
  }

  std::uint32_t size() const { return lanes_.size(); }

 private:
  void give_up(LaneId id, bool delivered, Outbox& out) {
    Lane& lane = (*this)[id];
    lane.queue.abandon([&](SendSlot* slot) { listener_.on_frame_released(slot, delivered, out); },
                       [&](const RdmaInFlight& chunk) { listener_.on_chunk_lost(chunk); });
    lane.open = false;
  }

  SendQueue::Config frames_;
  SendQueue::Config fetches_;
  Listener& listener_;
  StableVector<Lane> lanes_;
  std::vector<LaneId> free_;
};

}  // namespace weir
