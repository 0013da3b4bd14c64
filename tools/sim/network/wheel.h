// What is going to happen, by tick: a timing wheel. Events of one tick run in the order they were
// added, so a run is a function of its seed. Adding and taking are constant time; what lies beyond
// the wheel's horizon waits aside and is moved in when its time comes near.
//
// Events lie in blocks that are used again as soon as they are empty: as many as there are events,
// not as many as a slot once had, so that they stay in the cache.
//
// Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
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
    add(when - now_ < horizon ? slots_[index(when)] : far_[when], event);
  }

  // Runs everything before `until` and lets the clock show it. `soon` hears of events a little
  // before they are handled, twice, so that their memory can be fetched: at 5,256 nodes a run is
  // mostly waiting for memory, and a tick has hundreds of events.
  template <typename Handler, typename Soon>
  void run_until(Tick until, Handler&& handle, Soon&& soon) {
    while (now_ < until) {
      List& slot = slots_[index(now_)];
      Cursor near{slot.first};
      Cursor far{slot.first};
      for (std::size_t i = 0; i < ahead; ++i) tell(near, soon, true);
      for (std::size_t i = 0; i < 2 * ahead; ++i) tell(far, soon, false);
      // The handler may add to this very slot.
      while (slot.first != nullptr) {
        Block& block = *slot.first;
        for (std::uint32_t i = 0; i < block.count; ++i) {
          tell(near, soon, true);
          tell(far, soon, false);
          --waiting_;
          ++handled_;
          handle(Event{block.events[i]});
        }
        slot.first = block.next;
        // Cursors that ran out of events here go on with what was added behind.
        if (near.block == &block) near = {slot.first};
        if (far.block == &block) far = {slot.first};
        block.next = free_;
        free_ = &block;
      }
      slot.last = nullptr;
      ++now_;
      move_in();
    }
  }

  // Every event that waits; for checks.
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    const auto visit_all = [&](const List& list) {
      for (const Block* block = list.first; block != nullptr; block = block->next) {
        for (std::uint32_t i = 0; i < block->count; ++i) visit(block->events[i]);
      }
    };
    for (const List& slot : slots_) visit_all(slot);
    for (const auto& [when, events] : far_) visit_all(events);
  }

 private:
  static constexpr Tick horizon = 1 << 12;
  static constexpr std::size_t ahead = 6;  // events
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

  struct Cursor {
    Block* block = nullptr;
    std::uint32_t i = 0;
  };

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

  template <typename Soon>
  static void tell(Cursor& cursor, Soon&& soon, bool near) {
    if (cursor.block == nullptr) return;
    if (cursor.i == cursor.block->count) {
      if (cursor.block->next == nullptr) return;
      cursor = {cursor.block->next};
    }
    soon(cursor.block->events[cursor.i++], near);
  }

  // The slot is empty then: its tick has just come within the horizon.
  void move_in() {
    if (far_.empty() || far_.begin()->first - now_ >= horizon) return;
    slots_[index(far_.begin()->first)] = far_.begin()->second;
    far_.erase(far_.begin());
  }

  std::vector<List> slots_;
  std::deque<Block> blocks_;
  Block* free_ = nullptr;
  std::map<Tick, List> far_;
  Tick now_ = 0;
  std::size_t waiting_ = 0;
  std::uint64_t handled_ = 0;
};

}  // namespace weir::sim::network
