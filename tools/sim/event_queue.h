// The virtual clock and everything that is going to happen, in order of time; events of the same
// time run in the order they were added. Nothing else in the simulator knows the time, so a run is
// a function of its seed.
//
// Single-threaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/time.h"

namespace weir::sim {

class EventQueue {
 public:
  using Action = std::function<void()>;

  Time now() const { return now_; }
  bool empty() const { return events_.empty(); }
  std::uint64_t steps() const { return steps_; }

  // The time of the next event.
  Time next() const { return events_.empty() ? Time::never() : events_.begin()->first; }

  // `when` in the past means now.
  void at(Time when, Action action) { events_.emplace(std::max(when, now_), std::move(action)); }

  void after(Duration delay, Action action) { at(now_ + delay, std::move(action)); }

  // Runs the next event. False if there is none.
  bool step() {
    if (events_.empty()) return false;
    const auto event = events_.extract(events_.begin());
    now_ = event.key();
    ++steps_;
    event.mapped()();
    return true;
  }

  // Runs everything up to `until`, and lets the clock show `until`.
  void run_until(Time until) {
    while (next() <= until) step();
    now_ = std::max(now_, until);
  }

 private:
  std::multimap<Time, Action> events_;  // which keeps those of the same time in order
  Time now_{};
  std::uint64_t steps_ = 0;
};

}  // namespace weir::sim
