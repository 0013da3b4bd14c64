// The engine's lock: one compare-and-swap to take, one exchange to release, both inlined, because
// every message takes it. A thread that has to wait sleeps in the kernel and is woken when the lock
// is free. (Spinning would not work: on one core, a thread that polls without end is mostly
// interrupted while it holds the lock.)
#pragma once

#include "base/atomic.h"

namespace weir {

class Lock {
 public:
  void lock() {
    int seen = free;
    if (!state_.compare_exchange_strong(seen, taken, std::memory_order_acquire,
                                        std::memory_order_relaxed)) [[unlikely]] {
      wait();
    }
  }

  bool try_lock() {
    int seen = free;
    return state_.load(std::memory_order_relaxed) == free &&
           state_.compare_exchange_strong(seen, taken, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }

  // Sequentially consistent, because `notify_one` looks whether anybody waits: after a mere release
  // it may look before others see that the lock is free, and the thread that then goes to sleep is
  // never woken.
  void unlock() {
    if (state_.exchange(free) == awaited) [[unlikely]] {
      state_.notify_one();
    }
  }

 private:
  static constexpr int free = 0;
  static constexpr int taken = 1;
  static constexpr int awaited = 2;  // taken, and a thread sleeps

  // A thread that had to wait leaves `awaited` behind, because more threads may sleep.
  [[gnu::noinline]] void wait() {
    while (state_.exchange(awaited, std::memory_order_acquire) != free) {
      state_.wait(awaited, std::memory_order_relaxed);
    }
  }

  Atomic<int> state_{free};
};

}  // namespace weir
