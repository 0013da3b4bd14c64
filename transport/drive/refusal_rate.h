// How many requests are refused: so many at once, and then so many a second. A peer of another
// version that asks again and again, or a stranger, keeps nobody busy: what is beyond gets no words
// of ours, and its own timer tells it to ask again.
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
