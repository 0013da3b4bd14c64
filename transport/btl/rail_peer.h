// A peer over all rails of this process, as its endpoint keeps it for Rails.
//
// Thread rule: any thread asks for numbers, and for what `links` say. News of the links comes under
// the lock of frames, and `ways` are used under the lock of parts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "base/ids.h"
#include "transport/rail/links.h"
#include "transport/rail/transfers.h"

namespace weir::btl {

class RailPeer {
 public:
  // What the engine of that further rail calls the peer; none: the peer is not there.
  PeerId id(std::size_t rail) const { return ids_[rail - 1].is.load(std::memory_order_relaxed); }
  void set_id(std::size_t rail, PeerId id) {
    ids_[rail - 1].is.store(id, std::memory_order_relaxed);
  }

  RailTransfers::Ways ways;
  Links links;

 private:
  struct Id {
    std::atomic<PeerId> is{PeerId::none};
  };
  std::array<Id, most_rails - 1> ids_;
};

}  // namespace weir::btl
