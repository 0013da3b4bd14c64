// Which thread this is: a number to compare, without a call of a library.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace weir {

enum class ThreadMark : std::uintptr_t { none = 0 };

inline ThreadMark this_thread() {
#if __has_builtin(__builtin_thread_pointer)
  return ThreadMark{reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer())};
#else
  return ThreadMark{reinterpret_cast<std::uintptr_t>(pthread_self())};
#endif
}

}  // namespace weir
