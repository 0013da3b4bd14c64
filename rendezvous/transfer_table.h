// The slots that transfers live in. They never move and are reused; allocates only for a new
// maximum of concurrent transfers. Not thread-safe.
#pragma once

#include <cassert>
#include <cstdint>

#include "base/stable_vector.h"
#include "rendezvous/transfer.h"

namespace weir {

class TransferTable {
 public:
  // Makes room for `count` transfers at a time, so that the running path does not allocate.
  void reserve(std::uint32_t count) {
    while (slots_.size() < count) free_.push(&add());
  }

  Transfer& create(const TransferRequest& request) {
    Transfer* slot = free_.pop();
    Transfer& transfer = slot != nullptr ? *slot : add();
    transfer = {.id = transfer.id, .live = true, .request = request};
    ++live_;
    return transfer;
  }

  // The transfer of that id, or nullptr if it is over.
  Transfer* find(TransferId id) {
    const std::uint32_t slot = slot_of(id);
    if (slot >= slots_.size()) return nullptr;
    Transfer& transfer = slots_[slot];
    return transfer.live && transfer.id == id ? &transfer : nullptr;
  }

  // The transfer must be in no list.
  void release(Transfer& transfer) {
    assert(transfer.live && !transfer.queue.linked && !transfer.of_peer.linked);
    transfer.live = false;
    transfer.id = TransferId{static_cast<std::uint64_t>(transfer.id) + one_generation};
    free_.push(&transfer);
    --live_;
  }

  std::uint32_t live() const { return live_; }
  std::uint32_t slots() const { return slots_.size(); }

 private:
  static constexpr std::uint64_t one_generation = std::uint64_t{1} << 32u;

  static std::uint32_t slot_of(TransferId id) { return static_cast<std::uint32_t>(id); }

  Transfer& add() {
    const std::uint32_t slot = slots_.size();
    Transfer& transfer = slots_.emplace_back();
    transfer.id = TransferId{slot};
    return transfer;
  }

  StableVector<Transfer> slots_;
  TransferQueue free_;
  std::uint32_t live_ = 0;
};

}  // namespace weir
