// What is going to happen, by tick: a timing wheel. Events of one tick run in the order they were
// added, so a run is a function of its seed. Adding and taking are constant time; what lies beyond
// the wheel's horizon waits aside and is moved in when its time comes near.
//
// Single-threaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace weir::sim::network {

using Tick = std::int64_t;

template <typename Event>
class Wheel {
 public:
  Wheel() : slots_(horizon) {}

  Tick now() const { return now_; }
  std::uint64_t handled() const { return handled_; }
  bool empty() const { return waiting_ == 0; }

  // `when` is not in the past.
  void at(Tick when, Event event) {
    ++waiting_;
    if (when - now_ < horizon) {
      slots_[index(when)].push_back(event);
    } else {
      far_[when].push_back(event);
    }
  }

  // Runs everything before `until` and lets the clock show it. `soon` hears of events a little
  // before they are handled, twice, so that their memory can be fetched: at 5,256 nodes a run is
  // mostly waiting for memory, and a tick has hundreds of events.
  template <typename Handler, typename Soon>
  void run_until(Tick until, Handler&& handle, Soon&& soon) {
    while (now_ < until) {
      std::vector<Event>& slot = slots_[index(now_)];
      // The handler may add to this very slot.
      for (std::size_t i = 0; i < slot.size(); ++i) {
        if (i + 2 * ahead < slot.size()) soon(slot[i + 2 * ahead], false);
        if (i + ahead < slot.size()) soon(slot[i + ahead], true);
        const Event event = slot[i];
        --waiting_;
        ++handled_;
        handle(event);
      }
      slot.clear();
      ++now_;
      move_in();
    }
  }

  // Every event that waits; for checks.
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    for (const auto& slot : slots_) {
      for (const Event& event : slot) visit(event);
    }
    for (const auto& [when, events] : far_) {
      for (const Event& event : events) visit(event);
    }
  }

 private:
  static constexpr Tick horizon = 1 << 12;
  static constexpr std::size_t ahead = 6;  // events
  static std::size_t index(Tick when) { return static_cast<std::size_t>(when & (horizon - 1)); }

  void move_in() {
    while (!far_.empty() && far_.begin()->first - now_ < horizon) {
      auto& slot = slots_[index(far_.begin()->first)];
      const std::vector<Event>& events = far_.begin()->second;
      slot.insert(slot.begin(), events.begin(), events.end());  // they were added before
      far_.erase(far_.begin());
    }
  }

  std::vector<std::vector<Event>> slots_;
  std::map<Tick, std::vector<Event>> far_;
  Tick now_ = 0;
  std::size_t waiting_ = 0;
  std::uint64_t handled_ = 0;
};

}  // namespace weir::sim::network
