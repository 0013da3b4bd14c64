// What a process keeps of the frames that go to one peer, or come from it, by way of a relay
// (PROTOCOL.md §6). RelayTask changes what goes, RelayedArrivals what comes.
//
// A value; the caller serialises.
#pragma once

#include <cstdint>

#include "transport/base/time.h"

namespace weir {

class Relayed {
 public:
  // Frames that servers of the node have, or may have, for the peer.
  std::uint32_t given() const { return given_; }

 private:
  friend class RelayTask;
  friend class RelayedArrivals;

  std::uint32_t given_ = 0;
  std::uint32_t sequence_ = 0;  // of the next one to the peer
  std::uint32_t expected_ = 0;  // of the peer's next one to us
  bool taken_back_ = false;     // they are repeated; no more, until all of them are over
  bool never_ = false;          // some of them were given up
  Time not_before_{};           // a server sent one back
  Duration pause_{};            // and so long after the next one
};

}  // namespace weir
