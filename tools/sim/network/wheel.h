// What is going to happen, by tick: a timing wheel with lanes, one for each kind of event. Within a
// tick the lanes come in order, and the events of a lane in the order they were added, so a run is
// a function of its seed. What lies beyond the wheel's horizon waits aside.
//
// Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace weir::sim::network {

using Tick = std::int64_t;

template <typename Event, unsigned lanes>
class Wheel {
 public:
  Wheel() : slots_(horizon) {}

  Tick now() const { return now_; }
  std::uint64_t handled() const { return handled_; }

  // `when` is not in the past, `lane` below `lanes`.
  void at(Tick when, unsigned lane, const Event& event) {
    (when - now_ < horizon ? slots_[index(when)] : far_[when])[lane].push_back(event);
  }

  // Runs everything before `until` and lets the clock show it: handle(lane, event). What that adds
  // for the same tick comes behind what was there of that lane, and before later lanes.
  template <typename Handler>
  void run_until(Tick until, Handler&& handle) {
    while (now_ < until) {
      Slot& slot = slots_[index(now_)];
      for (unsigned lane = 0; lane < lanes; ++lane) {
        if (slot[lane].empty()) continue;
        taken_.clear();
        taken_.swap(slot[lane]);
        handled_ += taken_.size();
        for (const Event& event : taken_) handle(lane, event);
        lane = UINT32_MAX;  // from the first one again, for what was added
      }
      ++now_;
      // The slot that has just come within the horizon is empty.
      if (far_.empty() || far_.begin()->first - now_ >= horizon) continue;
      slots_[index(far_.begin()->first)] = std::move(far_.begin()->second);
      far_.erase(far_.begin());
    }
  }

  // visit(lane, event) for every event that waits; for checks.
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    const auto visit_all = [&](const Slot& slot) {
      for (unsigned lane = 0; lane < lanes; ++lane) {
        for (const Event& event : slot[lane]) visit(lane, event);
      }
    };
    for (const Slot& slot : slots_) visit_all(slot);
    for (const auto& [when, slot] : far_) visit_all(slot);
  }

 private:
  using Slot = std::array<std::vector<Event>, lanes>;
  static constexpr Tick horizon = 1 << 11;
  static std::size_t index(Tick when) { return static_cast<std::size_t>(when & (horizon - 1)); }

  std::vector<Slot> slots_;
  std::map<Tick, Slot> far_;
  std::vector<Event> taken_;
  Tick now_ = 0;
  std::uint64_t handled_ = 0;
};

}  // namespace weir::sim::network
