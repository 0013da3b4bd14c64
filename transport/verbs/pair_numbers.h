// From queue pair numbers to lanes: every completion names its pair by number.
//
// Open addressing with linear probing, at most half full. To add or remove one costs the same with
// few pairs and many, except for the table's growth. [Knuth, The Art of Computer Programming, 6.4,
// algorithms L and R]
//
// Thread rule: the engine's lock.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace weir::verbs {

class PairNumbers {
 public:
  void add(std::uint32_t number, LaneId lane) {
    if (2 * (count_ + 1) > entries_.size()) grow();
    put({number, lane});
    ++count_;
  }

  // Nothing happens if it is not there.
  void remove(std::uint32_t number) {
    std::uint32_t hole = place(number);
    if (entries_[hole].number == unused) return;
    --count_;
    // An entry that the removed one kept from its home moves into the hole and leaves another.
    for (std::uint32_t at = next(hole); entries_[at].number != unused; at = next(at)) {
      const std::uint32_t home = entries_[at].number & mask_;
      if (((at - home) & mask_) >= ((at - hole) & mask_)) {
        entries_[hole] = entries_[at];
        hole = at;
      }
    }
    entries_[hole] = {};
  }

  // LaneId::none if there is no such pair.
  LaneId find(std::uint32_t number) const { return entries_[place(number)].lane; }

 private:
  static constexpr std::uint32_t unused = 0xffffffff;  // numbers have 24 bits

  struct Entry {
    std::uint32_t number = unused;
    LaneId lane = LaneId::none;
  };

  std::uint32_t next(std::uint32_t at) const { return (at + 1) & mask_; }

  // Where the number is, or would be put.
  std::uint32_t place(std::uint32_t number) const {
    std::uint32_t at = number & mask_;
    while (entries_[at].number != number && entries_[at].number != unused) at = next(at);
    return at;
  }

  void put(const Entry& entry) { entries_[place(entry.number)] = entry; }

  void grow() {
    const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(entries_.size() * 2));
    mask_ = static_cast<std::uint32_t>(entries_.size()) - 1;
    for (const Entry& entry : old) {
      if (entry.number != unused) put(entry);
    }
  }

  std::vector<Entry> entries_{8};  // a power of two
  std::uint32_t mask_ = 7;
  std::uint32_t count_ = 0;
};

}  // namespace weir::verbs
