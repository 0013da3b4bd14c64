// The engine's lock: one compare-and-swap to take, a plain store to give back, both inlined, because
// they are on the path of every message. Held for microseconds and seldom contended (an application
// thread against the event thread), so who has to wait spins a little, then yields the processor.
#pragma once

#include <sched.h>

#include <atomic>

namespace weir {

class Lock {
 public:
  void lock() {
    if (!try_lock()) [[unlikely]] wait();
  }

  bool try_lock() {
    return !taken_.load(std::memory_order_relaxed) &&
           !taken_.exchange(true, std::memory_order_acquire);
  }

  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int spins_before_yield = 64;

  [[gnu::noinline]] void wait() {
    for (int spins = 0; !try_lock(); ++spins) {
      if (spins >= spins_before_yield) sched_yield();
    }
  }

  std::atomic<bool> taken_{false};
};

}  // namespace weir
