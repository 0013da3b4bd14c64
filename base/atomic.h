// Atomics and mutexes of what threads or processes share without a lock around it. A test builds
// the same code with others, which do all that a weak memory may do (tests/unit/order).
#pragma once

#ifdef WEIR_ATOMICS
#include WEIR_ATOMICS
#else
#include <atomic>

namespace weir {
template <typename T>
using Atomic = std::atomic<T>;
}  // namespace weir
#endif
