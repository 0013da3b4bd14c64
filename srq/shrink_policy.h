// When the receive window gives memory back. [ARWS] leaves this to future work (§6): a window that
// shrinks at once would grow again with the next burst.
//
// If at most three eighths of the window were in use for `after`, half of it may go. Two of these
// eighths may be buffers that only wait to be posted again in one go. So traffic took no more than
// one eighth, a quarter of what is left, and the same traffic does not reach the limit (W/2) again.
// If the window has to grow nevertheless, the next shrink waits twice as long, up to `most_periods`
// times; two harmless shrinks in a row halve the wait again.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weir {

class ShrinkPolicy {
 public:
  static constexpr std::int64_t most_periods = 32;

  // `after` 0: never.
  explicit ShrinkPolicy(Duration after) : after_(after) {}

  bool enabled() const { return after_.ns > 0; }

  // How often to look.
  Duration interval() const { return enabled() ? after_ / 4 : milliseconds(500); }

  // The window grew because traffic asked for it.
  void grew() {
    quiet_ = false;
    if (shrinks_since_growth_ > 0) periods_ = std::min(periods_ * 2, most_periods);
    shrinks_since_growth_ = 0;
  }

  // Looks at the window. `used`: most buffers in use since the look before. True if half of the
  // window may go.
  bool look(Time now, std::uint32_t window, std::uint32_t used) {
    const bool busy = used > window / 8 * 3;
    if (busy || !quiet_) {
      quiet_ = !busy;
      quiet_since_ = now;
      return false;
    }
    return now - quiet_since_ >= after_ * periods_;
  }

  // The window was shrunk.
  void shrank(Time now) {
    quiet_since_ = now;
    if (++shrinks_since_growth_ > 1) periods_ = std::max<std::int64_t>(periods_ / 2, 1);
  }

  std::int64_t periods() const { return periods_; }

 private:
  Duration after_;
  bool quiet_ = false;
  Time quiet_since_{};
  std::int64_t periods_ = 1;
  std::uint32_t shrinks_since_growth_ = 0;
};

}  // namespace weir
