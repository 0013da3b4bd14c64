// Where the making of a peer's lane for fetches stands, as both ends tell each other in frames
// (PROTOCOL.md §5). FetchLanes alone changes it.
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
    offered,  // ours is made
    joined,   // ours is connected to the peer's
    refused,  // one side could not make its end
  };

  // Both ends are connected: what the peer would not answer yet would be repeated only after the
  // timeout of the adapter.
  bool usable() const { return ours_.joined && peer_joined_; }
  // There is none, and will be none while this connection lasts.
  bool refused() const { return state_ == State::refused; }
  LaneId lane() const { return lane_; }
  // Reads and atomics under way on it at most.
  std::uint32_t reads() const { return reads_; }

 private:
  friend class FetchLanes;

  State state_ = State::none;
  bool peer_joined_ = false;  // the peer's end is connected to ours
  LaneId lane_ = LaneId::none;
  std::uint32_t reads_ = 0;
  wire::LaneEnd ours_{};    // as far as it is made
  wire::LaneEnd theirs_{};  // told before ours was made
};

}  // namespace weir
