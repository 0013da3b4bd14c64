// Most bytes a second (`rate_max`): a request goes once those before it would have gone at this
// rate. Nobody looks just then, so up to `catch_up` of time that has passed is made good.
//
//   next = max(next, now - catch_up) + bytes / rate
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weir {

class Pace {
 public:
  static constexpr Duration catch_up = milliseconds(20);

  // From here on; 0: no limit.
  void limit(std::uint64_t bytes_per_second) {
    bytes_per_second_ = bytes_per_second;
    next_ = start;
  }
  bool on() const { return bytes_per_second_ > 0; }

  // When the next request may go.
  Time next() const { return next_; }
  // A request went to the adapter.
  void went(Time now, std::uint64_t bytes) {
    const double ns = static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_second_);
    next_ = std::max(next_, Time{now.ns - catch_up.ns}) + Duration{static_cast<std::int64_t>(ns)};
  }

 private:
  static constexpr Time start{INT64_MIN / 2};

  std::uint64_t bytes_per_second_ = 0;
  Time next_ = start;
};

}  // namespace weir
