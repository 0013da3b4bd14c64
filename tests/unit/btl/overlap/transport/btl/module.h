// In place of the real one for overlap_test.cc: all that the overlap thread sees of a module. The
// engine is a line of numbers behind a lock, with the StandIn of the real one; there is no device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "base/counters.h"
#include "transport/btl/overlap.h"
#include "transport/engine/stand_in.h"

namespace weir {

class Engine {
 public:
  static Time clock() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()};
  }

  // ---- what overlap.cc calls ----

  void set_bell(int bell, const Engine& visited) {
    std::lock_guard guard(lock_);
    stand_in_.set_bell(bell, visited.stand_in_);
  }
  std::uint64_t visits() const { return stand_in_.visits(); }
  bool visited_since(std::uint64_t visits) {
    std::lock_guard guard(lock_);
    return stand_in_.visits() != visits;
  }
  std::uint64_t visits_when_rung() {
    std::lock_guard guard(lock_);
    return stand_in_.visits_when_rung();
  }
  bool waits_for_application(std::uint64_t& visits) {
    std::lock_guard guard(lock_);
    visits = stand_in_.application_visits();
    return stand_in_.on_look(waits());
  }
  void rang_in_vain() {
    std::lock_guard guard(lock_);
    stand_in_.was_in_vain();
  }
  void count(std::uint64_t Counters::*counter, std::uint64_t more = 1) {
    std::lock_guard guard(lock_);
    counters_.*counter += more;
  }

  // ---- the fabric, and the event thread ----

  void arrive() {
    std::lock_guard guard(lock_);
    line_.push_back(++arrived_);
  }
  void look() {
    std::lock_guard guard(lock_);
    if (stand_in_.has_bell()) stand_in_.look(clock(), false, waits());
  }

  // ---- who hands up: one thread at a time, without the lock ----

  template <typename Handler>
  int progress(Handler&& handler) {
    {
      std::unique_lock guard(lock_, std::try_to_lock);
      if (!guard.owns_lock()) return 0;
      stand_in_.visit();
      if (!enter()) return 0;
    }
    return hand_up(handler, [](int) { return true; });
  }
  template <typename Handler, typename GoesOn>
  int stand_in(Handler&& handler, std::uint64_t visits, GoesOn&& goes_on) {
    {
      std::unique_lock guard(lock_, std::try_to_lock);
      if (!guard.owns_lock() || visits != this->visits() || !enter()) return 0;
    }
    return hand_up(handler, [&](int count) { return goes_on(count) && visits == this->visits(); });
  }

  Counters counters() {
    std::lock_guard guard(lock_);
    return counters_;
  }

 private:
  bool waits() const { return !is_owned() && (!line_.empty() || !taken_.empty()); }
  bool is_owned() const { return owned_.load(std::memory_order_acquire); }
  bool enter() {
    if (is_owned() || !waits()) return false;
    if (taken_.empty()) taken_.swap(line_);
    owned_.store(true, std::memory_order_relaxed);
    return true;
  }
  template <typename Handler, typename GoesOn>
  int hand_up(Handler& handler, GoesOn&& goes_on) {
    int count = 0;
    for (; !taken_.empty() && goes_on(count); ++count) {
      const std::uint64_t number = taken_.front();
      taken_.pop_front();
      handler(number);
    }
    owned_.store(false, std::memory_order_release);
    return count;
  }

  std::mutex lock_;
  StandIn stand_in_;
  Counters counters_;
  std::deque<std::uint64_t> line_;
  std::uint64_t arrived_ = 0;
  std::atomic<bool> owned_{false};
  std::deque<std::uint64_t> taken_;  // of who owns
};

}  // namespace weir

namespace weir::btl {

struct Module {
  template <typename F>
  void for_each_engine(F&& visit) {
    visit(*engine);
  }
  std::unique_ptr<Engine> engine = std::make_unique<Engine>();
  std::unique_ptr<Overlap> overlap;
  // Of the upcalls, which no lock guards.
  std::uint64_t last = 0;
  std::uint64_t out_of_order = 0;
};

int stand_in_for_application(Module& module, std::uint64_t visits, int most) noexcept;

}  // namespace weir::btl
