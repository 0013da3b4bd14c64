// When the event thread looks, and whether the application is absent: then it computes, and nobody
// handles frames that wait, credits that came, or tokens that others wait for.
//
// While something waits, the thread ticks. A tick is 1 ms. It becomes longer while ticks do not
// help, because a receiver that computes gives no credits, and while the application is seen to
// look itself. When nothing has waited for a while, the thread sleeps until somebody wakes it, an
// event comes, or a deadline: a burst then costs one wake-up, not one per frame.
//
// While this process has what others of the node wait for (tokens, reads of the shared budget), its
// ticks stay short: they do not wait for the application, and after a while take the process for
// one that stands still.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weir {

class Attendance {
 public:
  // The longest tick while others of the node may wait for this process. The thread stands in for
  // an absent application in the second tick.
  static constexpr Duration longest_shared_tick = milliseconds(4);

  explicit Attendance(Time now) : absent_since_(now), next_limit_look_(now + limit_look_interval) {}

  // How long the thread is to sleep, in whole milliseconds as in poll(2). `needed`: something
  // waits. At most a second: work posted meanwhile may have brought a deadline of its own.
  Duration nap(bool needed, Time now, Time deadline) {
    asleep_ = quiet_looks_ >= most_quiet_looks && !needed;
    if (!asleep_) return tick_;
    if (deadline == Time::never()) return longest_sleep;
    const std::int64_t ms = (deadline - now).ns / milliseconds(1).ns + 1;
    return std::clamp(milliseconds(ms), Duration{}, longest_sleep);
  }
  // The thread looks no earlier than the end of its nap, unless somebody wakes it.
  bool asleep() const { return asleep_; }
  // The nap is longer than others of the node are to wait.
  bool is_too_long_for_sharers() const { return asleep_ || tick_ > longest_shared_tick; }
  // Somebody left work, and wakes the thread.
  void wake() {
    asleep_ = false;
    tick_ = std::min(tick_, longest_shared_tick);
  }
  // The thread was woken.
  void on_woken() {
    quiet_looks_ = 0;
    tick_ = shortest_tick;
  }

  // A look begins; `round` is the core's. True if the application is absent: it made no progress
  // for a whole tick.
  bool begin(Time now, std::uint64_t round) {
    asleep_ = false;
    absent_ = round == round_;
    if (absent_) absent_since_ = now;
    attended_for_ = now - absent_since_;
    return absent_;
  }
  // The look ends. `round`: now, because the look may have begun one; `needed`: something still
  // waits; `helped`: less waits than before, or it goes on by itself; `shares`: others of the node
  // may wait for what this process has.
  void end(std::uint64_t round, bool needed, bool helped, bool shares) {
    round_ = round;
    Duration longest = absent_ ? longest_tick
                               : std::clamp(whole_ms(attended_for_ / attended_part),
                                            shortest_attended_tick, longest_attended_tick);
    if (shares) longest = std::min(longest, longest_shared_tick);
    tick_ = absent_ && helped ? shortest_tick : std::min(tick_ * 2, longest);
    quiet_looks_ = needed ? 0 : std::min(quiet_looks_ + 1, most_quiet_looks);
  }

  // An SRQ limit event comes once, and may be lost: true if it is time to look for one.
  bool is_limit_look_due(Time now) {
    if (now < next_limit_look_) return false;
    next_limit_look_ = now + limit_look_interval;
    return true;
  }

 private:
  static constexpr Duration shortest_tick = milliseconds(1);
  static constexpr Duration longest_tick = milliseconds(16);
  // The tick while the application is seen to look itself: a sixteenth of the time it has done so.
  // What the application loses when it begins to compute is then small in comparison. A wake-up
  // costs a hundred microseconds and more on an emulated machine, and takes the core from its user.
  static constexpr Duration shortest_attended_tick = milliseconds(4);
  static constexpr Duration longest_attended_tick = milliseconds(32);
  static constexpr std::int64_t attended_part = 16;
  // Few, because each takes the core from the application: a transfer now and then would keep the
  // thread awake for ever.
  static constexpr int most_quiet_looks = 3;
  static constexpr Duration longest_sleep = seconds(1);
  static constexpr Duration limit_look_interval = seconds(1);

  static constexpr Duration whole_ms(Duration d) { return milliseconds(d.ns / milliseconds(1).ns); }

  Duration tick_ = shortest_tick;
  int quiet_looks_ = most_quiet_looks;
  bool asleep_ = false;
  bool absent_ = false;
  std::uint64_t round_ = 0;
  Time absent_since_;  // when the application was last seen to be absent
  Duration attended_for_{};
  Time next_limit_look_;
};

}  // namespace weir
