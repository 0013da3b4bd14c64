// The sleep of a thread that looks less and less often, and is woken by the application's next
// visit. The visits are counted under the engine's lock, and the sleeper reads the count under it
// before it sleeps. So either it sees the visit, or the visitor, whose count comes behind, sees
// that it sleeps. Without the lock both might miss each other, for a load may pass a store.
//
// Thread rule: `begin` and `end` for the sleeper, `ends_by_visit` for any other thread.
#pragma once

#include "base/atomic.h"

namespace weir {

class Doze {
 public:
  // True if the thread may sleep, that is, `is_visited()` says no: it takes the engine's lock.
  template <typename IsVisited>
  bool begin(IsVisited&& is_visited) {
    dozes_.store(true, std::memory_order_relaxed);
    if (!is_visited()) return true;
    end();
    return false;
  }
  void end() { dozes_.store(false, std::memory_order_relaxed); }

  // After a visit. True if the caller is to wake the thread.
  bool ends_by_visit() {
    return dozes_.load(std::memory_order_relaxed) &&
           dozes_.exchange(false, std::memory_order_relaxed);
  }

 private:
  Atomic<bool> dozes_{false};
};

}  // namespace weir
