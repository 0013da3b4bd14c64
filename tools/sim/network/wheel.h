// What is going to happen, by tick: a timing wheel with lanes, one for each kind of event. Within a
// tick the lanes come in order, and the events of a lane in the order they were added, so a run is
// a function of its seed. A lane's events are handed out together: whoever handles them looks ahead
// and fetches their memory, and has one thing to do at a time.
//
// Adding and taking are constant time; what lies beyond the wheel's horizon waits aside and is
// moved in when its time comes near. Events lie in blocks that are used again as soon as they are
// empty: as many as there are events, not as many as a slot once had, so that they stay in the
// cache.
//
// Single-threaded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

namespace weir::sim::network {

using Tick = std::int64_t;

template <typename Event, unsigned lanes>
class Wheel {
 public:
  Wheel() : slots_(horizon) {}

  Tick now() const { return now_; }
  std::uint64_t handled() const { return handled_; }
  bool empty() const { return waiting_ == 0; }

  // `when` is not in the past, `lane` below `lanes`.
  void at(Tick when, unsigned lane, const Event& event) {
    ++waiting_;
    add((when - now_ < horizon ? slots_[index(when)] : far_[when])[lane], event);
  }

  // Runs everything before `until` and lets the clock show it: handle(lane, events). What that adds
  // for the same tick is handed out behind them, however often.
  template <typename Handler>
  void run_until(Tick until, Handler&& handle) {
    while (now_ < until) {
      Slot& slot = slots_[index(now_)];
      for (unsigned lane = 0; lane < lanes; ++lane) {
        if (slot[lane].first == nullptr) continue;
        take(slot[lane]);
        handle(lane, std::span<const Event>(taken_));
        lane = UINT32_MAX;  // from the first one again, for what was added
      }
      ++now_;
      move_in();
    }
  }

  // visit(lane, event) for every event that waits; for checks.
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    const auto visit_all = [&](const Slot& slot) {
      for (unsigned lane = 0; lane < lanes; ++lane) {
        for (const Block* block = slot[lane].first; block != nullptr; block = block->next) {
          for (std::uint32_t i = 0; i < block->count; ++i) visit(lane, block->events[i]);
        }
      }
    };
    for (const Slot& slot : slots_) visit_all(slot);
    for (const auto& [when, slot] : far_) visit_all(slot);
  }

 private:
  static constexpr Tick horizon = 1 << 11;
  static std::size_t index(Tick when) { return static_cast<std::size_t>(when & (horizon - 1)); }

  struct Block {
    static constexpr std::uint32_t size = 30;
    Block* next = nullptr;
    std::uint32_t count = 0;
    std::array<Event, size> events;
  };

  struct List {
    Block* first = nullptr;
    Block* last = nullptr;
  };

  using Slot = std::array<List, lanes>;

  void add(List& list, const Event& event) {
    if (list.last == nullptr || list.last->count == Block::size) {
      Block* const block = take_block();
      (list.last == nullptr ? list.first : list.last->next) = block;
      list.last = block;
    }
    list.last->events[list.last->count++] = event;
  }

  Block* take_block() {
    if (free_ == nullptr) free_ = &blocks_.emplace_back();
    Block* const block = free_;
    free_ = block->next;
    block->next = nullptr;
    block->count = 0;
    return block;
  }

  void take(List& list) {
    taken_.clear();
    while (Block* const block = list.first) {
      taken_.insert(taken_.end(), block->events.begin(), block->events.begin() + block->count);
      list.first = block->next;
      block->next = free_;
      free_ = block;
    }
    list.last = nullptr;
    waiting_ -= taken_.size();
    handled_ += taken_.size();
  }

  // The slot is empty then: its tick has just come within the horizon.
  void move_in() {
    if (far_.empty() || far_.begin()->first - now_ >= horizon) return;
    slots_[index(far_.begin()->first)] = far_.begin()->second;
    far_.erase(far_.begin());
  }

  std::vector<Slot> slots_;
  std::map<Tick, Slot> far_;
  std::deque<Block> blocks_;
  Block* free_ = nullptr;
  std::vector<Event> taken_;
  Tick now_ = 0;
  std::size_t waiting_ = 0;
  std::uint64_t handled_ = 0;
};

}  // namespace weir::sim::network
