// The state of frames that go to one peer, or come from it, through a relay (PROTOCOL.md §6). Only
// RelayTask changes the outgoing half, only RelayedArrivals the incoming one.
//
// A value; the caller serialises.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace weir {

class Relayed {
 public:
  Relayed() = default;
  explicit Relayed(std::uint32_t first) : sequence_(first), expected_(first) {}

  // Frames that servers of the node have, or may have, for the peer.
  std::uint32_t given() const { return given_; }

 private:
  friend class RelayTask;
  friend class RelayedArrivals;

  std::uint32_t given_ = 0;
  std::uint32_t sequence_ = 0;  // number of the next frame to the peer
  std::uint32_t expected_ = 0;  // number of the peer's next frame to us
  bool taken_back_ = false;     // given frames are repeated; no more until all are over
  bool never_ = false;          // given frames were given up, so no more are given
  Time not_before_{};           // give no more before this: a server sent one back
  Duration pause_{};            // the last pause; the next one is longer
};

}  // namespace weir
