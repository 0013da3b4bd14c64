// Waiting, never for ever.
#pragma once

#include <chrono>
#include <thread>

namespace weir::tools::doctor {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

inline double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Asks `done` again and again; false when `limit` passed first.
template <typename Condition>
bool wait_for(milliseconds limit, Condition done) {
  const auto end = Clock::now() + limit;
  for (int round = 0; !done(); ++round) {
    if (Clock::now() >= end) return false;
    // Spins first, for what takes microseconds.
    if (round > 20000) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace weir::tools::doctor
