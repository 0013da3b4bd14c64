// A flush waits only for the operations that were begun before it. Otherwise it might never end
// while there is traffic: ob1's gets of large messages are operations, too.
//
// Every operation belongs to one of two epochs, and each epoch counts its operations. A flush
// begins the other epoch and waits until all operations of the last one are over. Only one flush
// runs at a time; a second one waits for its turn, which comes because the first one ends.
//
// Who flushes sees what the operations did that others ended: ending is a release, the look at the
// count an acquire. An operation that was begun before the flush is in a count that the flush reads,
// whatever the order, for a word does not go back.
//
// Thread rule: any thread.
#pragma once

#include <array>
#include <cstdint>

#include "base/atomic.h"

namespace weir::btl {

class FlushEpochs {
 public:
  static constexpr std::uint8_t none = 0xff;

  // An operation begins; pass the result to `end`.
  std::uint8_t begin() {
    const std::uint8_t epoch = now_.load(std::memory_order_relaxed);
    under_way_[epoch].fetch_add(1, std::memory_order_relaxed);
    return epoch;
  }
  void end(std::uint8_t epoch) { under_way_[epoch].fetch_sub(1, std::memory_order_release); }

  // Calls `progress` at least once, and until all operations begun before are over.
  template <typename Progress>
  void flush(Progress&& progress) {
    while (flushing_.exchange(true, std::memory_order_acquire)) progress();
    // Stragglers read the epoch before the last flush, and counted themselves after it.
    const std::uint8_t last = now_.load(std::memory_order_relaxed);
    const std::uint8_t next = last ^ 1;
    while (under_way(next) > 0) progress();
    now_.store(next, std::memory_order_relaxed);
    do {
      progress();
    } while (under_way(last) > 0);
    flushing_.store(false, std::memory_order_release);
  }

 private:
  std::uint32_t under_way(std::uint8_t epoch) const {
    return under_way_[epoch].load(std::memory_order_acquire);
  }

  Atomic<std::uint8_t> now_{0};
  std::array<Atomic<std::uint32_t>, 2> under_way_{};
  Atomic<bool> flushing_{false};
};

}  // namespace weir::btl
