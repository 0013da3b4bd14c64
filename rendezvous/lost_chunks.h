// The records of chunks that were under way on queue pairs that are destroyed. Each transfer has a
// list of its own, oldest first; what is lost goes once more, before anything new of it.
//
// Allocates only for a new maximum of chunks lost at a time. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "rendezvous/transfer.h"

namespace weir {

class LostChunks {
 public:
  void keep(Transfer& transfer, std::uint64_t offset, std::uint32_t bytes) {
    if (free_ == nullptr) free_ = &all_.emplace_back();
    LostChunk* const chunk = std::exchange(free_, free_->next);
    *chunk = {offset, bytes, nullptr};
    (transfer.lost != nullptr ? transfer.last_lost->next : transfer.lost) = chunk;
    transfer.last_lost = chunk;
  }

  // The transfer must have one.
  LostChunk take(Transfer& transfer) {
    LostChunk* const chunk = std::exchange(transfer.lost, transfer.lost->next);
    const LostChunk taken = *chunk;
    chunk->next = std::exchange(free_, chunk);
    return taken;
  }

 private:
  std::deque<LostChunk> all_;
  LostChunk* free_ = nullptr;
};

}  // namespace weir
