// The virtual clock and everything that is going to happen, in order of time; events of the same
// time run in the order they were added. Nothing else in the simulator knows the time, so a run is
// a function of its seed.
//
// Single-threaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/time.h"

namespace weir::sim {

class EventQueue {
 public:
  using Action = std::function<void()>;

  Time now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  std::uint64_t steps() const { return steps_; }

  // The time of the next event.
  Time next() const { return heap_.empty() ? Time::never() : heap_.front().when; }

  // `when` in the past means now.
  void at(Time when, Action action) {
    heap_.push_back({std::max(when, now_), added_++, std::move(action)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  void after(Duration delay, Action action) { at(now_ + delay, std::move(action)); }

  // Runs the next event. False if there is none.
  bool step() {
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ = event.when;
    ++steps_;
    event.action();
    return true;
  }

  // Runs everything up to `until`, and lets the clock show `until`.
  void run_until(Time until) {
    while (next() <= until) step();
    now_ = std::max(now_, until);
  }

 private:
  struct Event {
    Time when;
    std::uint64_t number;
    Action action;
  };

  static bool later(const Event& a, const Event& b) {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }

  std::vector<Event> heap_;
  Time now_{};
  std::uint64_t added_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace weir::sim
