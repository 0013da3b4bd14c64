// The time of one step. The clock is read at the first request, and the value then stays: a step
// that needs no time reads no clock, and all parts of a step see the same time.
//
// The caller of the step supplies it: an engine gives its clock, the simulator and tests give the
// time itself. A value; not thread-safe.
#pragma once

#include "base/time.h"

namespace weir {

class Now {
 public:
  using Clock = Time (*)();

  // NOLINTNEXTLINE: a time is the time of a step
  constexpr Now(Time time) : time_(time) {}
  constexpr explicit Now(Clock clock) : clock_(clock) {}

  operator Time() const { return time(); }
  Time time() const {
    if (clock_ != nullptr) {
      time_ = clock_();
      clock_ = nullptr;
    }
    return time_;
  }
  friend Time operator+(const Now& now, Duration d) { return now.time() + d; }

 private:
  mutable Clock clock_ = nullptr;
  mutable Time time_{};
};

}  // namespace weir
