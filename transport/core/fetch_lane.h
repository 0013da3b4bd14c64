// How far the making of a peer's lane for fetches is; both ends tell each other in frames
// (PROTOCOL.md §5). Only FetchLanes changes this.
//
//   none ──want──▶ offered ──theirs──▶ joined ──theirs joined──▶ usable
//     └──theirs──▶ joined                any of them ──one side cannot──▶ refused
//
// A value; the caller serialises.
#pragma once

#include <cstdint>

#include "transport/base/ids.h"
#include "transport/wire/frame.h"

namespace weir {

class FetchLane {
 public:
  enum class State : std::uint8_t {
    none,
    offered,  // our end is made
    joined,   // our end is connected to the peer's
    refused,  // one side could not make its end
  };

  // Both ends are connected. A request that the peer's end could not answer yet would be repeated
  // only after the adapter's timeout.
  bool usable() const { return ours_.joined && peer_joined_; }
  // There is no such lane, and there will be none while this connection lasts.
  bool refused() const { return state_ == State::refused; }
  // Nothing that was said about it waits for an answer.
  bool is_settled() const { return state_ == State::none || refused() || usable(); }
  LaneId lane() const { return lane_; }
  // The most reads and atomics under way on the lane.
  std::uint32_t reads() const { return reads_; }

 private:
  friend class FetchLanes;

  State state_ = State::none;
  bool peer_joined_ = false;  // the peer's end is connected to ours
  LaneId lane_ = LaneId::none;
  std::uint32_t reads_ = 0;
  wire::LaneEnd ours_{};    // our end, as far as it is made
  wire::LaneEnd theirs_{};  // the peer's end, told before ours was made
};

}  // namespace weir
