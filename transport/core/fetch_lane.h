// The state of a lane for fetches while both ends make it, as they tell each other in frames
// (PROTOCOL.md §5). Only FetchLanes changes this.
//
//   none ──want──▶ offered ──theirs──▶ joined ──theirs joined──▶ usable ──slow, broken──▶ leaving
//     └──theirs──▶ joined                any of them ──one side cannot──▶ refused
//
// A peer has the first lane, and further ones for large gets (`paths`). The further ones may be
// left and made anew, and are never refused for good.
//
// A value; the caller serialises.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "transport/rail/spread.h"
#include "transport/wire/frame.h"

namespace weir {

class FetchLane {
 public:
  enum class State : std::uint8_t {
    none,
    offered,  // our end is made
    joined,   // our end is connected to the peer's
    refused,  // one side could not make its end
    leaving,  // our end is about to be destroyed
  };

  // Our end is there, and not only asked for.
  bool is_made() const { return ours_.exists(); }
  // Both ends are connected. A request that the peer's end could not answer yet would be repeated
  // only after the adapter's timeout.
  bool usable() const { return state_ == State::joined && ours_.joined && peer_joined_; }
  // There is no such lane, and there will be none while this connection lasts.
  bool refused() const { return state_ == State::refused; }
  // Nothing that either side said about the lane waits for an answer.
  bool is_settled() const { return state_ == State::none || refused() || usable(); }
  bool is_leaving() const { return state_ == State::leaving; }
  LaneId lane() const { return lane_; }
  // The most reads and atomics under way on the lane.
  std::uint32_t reads() const { return reads_; }

 private:
  friend class FetchLanes;

  State state_ = State::none;
  bool peer_joined_ = false;  // the peer's end is connected to ours
  LaneId lane_ = LaneId::none;
  std::uint32_t reads_ = 0;
  wire::LaneEnd ours_{};                  // our end, once it is made
  std::optional<wire::LaneEnd> untaken_;  // the peer's end, told when we could not act on it
  std::uint32_t their_pair_ = 0;          // the pair that our end is, or will be, connected to
  std::uint32_t left_pair_ = 0;           // the pair that our last end was connected to
};

// The further lanes of a peer with large gets.
struct FurtherLanes {
  std::array<FetchLane, Spread::most_lanes> lanes;  // the first is number 1 on the wire
  // Lane ends that the peer has yet to be told, by number; also of lanes that are gone.
  std::array<wire::LaneEnd, Spread::most_lanes + 1> owed_ends;
  std::uint16_t owed = 0;  // a bit for each
  Spread spread;           // transfers.h

  bool is_settled() const {
    for (const FetchLane& end : lanes) {
      if (!end.is_settled()) return false;
    }
    return owed == 0;
  }
};

}  // namespace weir
