// A peer over all rails of this process; a part of its endpoint.
//
// Thread rule: any thread reads ids and `links`. `links` change under the lock of FramesOverRails,
// and `ways` are used under the lock of PartsOverRails.
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
  // The peer's id in the engine of that further rail; none: the peer is not on that rail.
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
