// The target's side of the order of a peer's frames, which may come over several lanes: a ring of R
// places, indexed by a frame's number modulo R [ORD §III.D, IV.D]. What comes early waits there,
// and is handed up when what is missing before it has come.
//
//   numbers   … had it │ expected │ expected + 1 … expected + R - 1 │ …
//   offer()     twice  │   next   │  early, or twice if held        │ beyond
//
// Every number is handed up once, in order. Items are references to frames: what waits occupies its
// receive buffer, and is not copied.
//
// Differs: [ORD] hashes {source, connection, number} into one ring of a node; here a peer has a
// ring of its own, because its frames have receive buffers of their own, by its credits.
//
// Pure; no allocation after construction; the caller serialises.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "transport/lane/sequence.h"

namespace weir {

template <typename Item>
class ReorderWindow {
 public:
  enum class Place : std::uint8_t {
    next,    // the one expected: the caller takes it, and then what take_next() has
    early,   // held for what is missing before it
    twice,   // it was here before: to be dropped
    beyond,  // there is no place for it: the sender did not keep to its window (send_window.h)
  };

  // R is `places`, rounded up to a power of two.
  explicit ReorderWindow(std::uint32_t places, std::uint32_t first = 0)
      : mask_(std::bit_ceil(std::max(places, 1u)) - 1),
        places_(new std::optional<Item>[mask_ + 1]),
        expected_(first & sequence_mask) {
    assert(mask_ < sequence_half / 2);
  }

  Place offer(std::uint32_t number, const Item& item) {
    const std::uint32_t distance = ahead(number, expected_);
    if (distance >= sequence_half) return Place::twice;
    if (distance > mask_) return Place::beyond;
    std::optional<Item>& place = places_[number & mask_];
    if (place) return Place::twice;
    if (distance == 0) {
      expected_ = next_number(expected_);
      return Place::next;
    }
    place = item;
    most_held_ = std::max(most_held_, ++held_);
    ++early_count_;
    return Place::early;
  }

  // The next one, if it is held; to be asked until there is none, now or later.
  std::optional<Item> take_next() {
    std::optional<Item> item = std::exchange(places_[expected_ & mask_], std::nullopt);
    if (item) {
      expected_ = next_number(expected_);
      --held_;
    }
    return item;
  }

  std::uint32_t expected() const { return expected_; }  // all before it were handed up
  std::uint32_t held() const { return held_; }
  std::uint32_t most_held() const { return most_held_; }
  std::uint64_t early_count() const { return early_count_; }

 private:
  std::uint32_t mask_;
  std::unique_ptr<std::optional<Item>[]> places_;  // held, by number
  std::uint32_t expected_;
  std::uint32_t held_ = 0;
  std::uint32_t most_held_ = 0;
  std::uint64_t early_count_ = 0;
};

}  // namespace weir
