// The time of one step. It is read when somebody first asks for it, and then stays: a step that
// needs no time costs no clock, and all parts of a step see the same one.
//
// Whoever makes the step brings it: an engine with its clock, the simulator and tests with the time
// itself. A value; not thread-safe.
#pragma once

#include "transport/base/time.h"

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
