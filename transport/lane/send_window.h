// The source's side of the order of a peer's frames: no more than R/2 past the oldest that is not
// known to have arrived, where R is what the peer's reorder window holds [ORD §IV.D, Fig. 12(c)].
// So a frame is never beyond that window, and whatever waits there has no more than half of it.
//
// Acknowledgements come in any order, each once; a number is known to have arrived when its own
// has come [ORD §III.D].
//
// Pure; no allocation after construction; the caller serialises.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <memory>
#include <utility>

#include "transport/lane/sequence.h"

namespace weir {

class SendWindow {
 public:
  // `places` is the peer's R. With 2, one frame at a time: the source orders [ORD §III.D.1].
  explicit SendWindow(std::uint32_t places, std::uint32_t first = 0)
      : most_(std::max(places / 2, 1u)),
        mask_(std::bit_ceil(most_) - 1),
        arrived_(new bool[mask_ + 1]()),
        oldest_(first & sequence_mask),
        next_(oldest_) {
    assert(mask_ < sequence_half / 2);
  }

  bool has_room() const { return outstanding() < most_; }

  // The number of a frame that is sent. There must be room.
  std::uint32_t take() {
    assert(has_room());
    return std::exchange(next_, next_number(next_));
  }

  // False if that number is not outstanding: it was not sent, or is known to have arrived.
  bool acknowledge(std::uint32_t number) {
    bool& arrived = arrived_[number & mask_];
    if (ahead(number, oldest_) >= outstanding() || arrived) return false;
    arrived = true;
    while (std::exchange(arrived_[oldest_ & mask_], false)) oldest_ = next_number(oldest_);
    return true;
  }

  std::uint32_t next() const { return next_; }      // the next one's number
  std::uint32_t oldest() const { return oldest_; }  // not known to have arrived; or next()
  std::uint32_t outstanding() const { return ahead(next_, oldest_); }  // the oldest, and all since

 private:
  std::uint32_t most_;
  std::uint32_t mask_;
  std::unique_ptr<bool[]> arrived_;
  std::uint32_t oldest_;
  std::uint32_t next_;
};

}  // namespace weir
