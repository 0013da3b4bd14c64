// CPU seconds of this thread alone: points run side by side.
#pragma once

#include <time.h>

namespace weir::sim {

inline double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace weir::sim
