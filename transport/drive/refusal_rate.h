// How many requests are refused with an answer: so many at once, and then so many a second. Further
// ones get no answer, and their sender's own timer makes it ask again. So a stranger, or a peer of
// another version that asks again and again, costs little.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weir {

class RefusalRate {
 public:
  static constexpr std::int64_t at_once = 64;
  static constexpr Duration each = milliseconds(10);

  // Whether one more is answered now.
  bool take(Time now) {
    const std::int64_t earned = std::min((now - since_).ns / each.ns, at_once);
    if (earned > 0) {
      left_ = std::min(left_ + earned, at_once);
      since_ = now;
    }
    if (left_ == 0) return false;
    --left_;
    return true;
  }

 private:
  std::int64_t left_ = at_once;
  Time since_{};
};

}  // namespace weir
