// One 64-bit word of memory that processes share. The algorithms of this folder use shared memory
// only by load, store and compare-and-exchange of such words, so that a test can substitute a word
// of its own and stop a process before every single access.
//
// Orders: a store is a release, a load an acquire, an exchange both. The algorithms need no more:
// where one process must see what another wrote before, a chain of exchanges of one word connects
// them (token_pool.h). So no store costs a fence. tests/unit/order tells which words need which.
//
// Any thread of any process that maps the word.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weir {

class SharedWord {
 public:
  std::uint64_t load() const { return value_.load(std::memory_order_acquire); }

  void store(std::uint64_t value) { value_.store(value, std::memory_order_release); }

  // If the word is `expected`, it becomes `wanted`: true. Else `expected` becomes its value.
  bool compare_exchange(std::uint64_t& expected, std::uint64_t wanted) {
    return value_.compare_exchange_strong(expected, wanted, std::memory_order_acq_rel,
                                          std::memory_order_acquire);
  }

 private:
  Atomic<std::uint64_t> value_;
};

static_assert(Atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(SharedWord) == sizeof(std::uint64_t));

}  // namespace weir
