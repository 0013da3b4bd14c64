// Inline rate throttling, IRT [TOK §5.1, rate limiting; §5.2]: a least time between two requests of
// a process, by the size of the later one. It knows nothing about the node, so it also works where
// processes share no memory; it cannot avoid concurrency congestion. [TOK §6]
//
//   now - last injection >= delay[size]
//
// Differs: [TOK] waits inside the call; here the caller is told how long to wait, and comes back.
//
// Pure; the caller serialises.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"
#include "flowctl/size_class.h"

namespace weir {

class RateLimiter {
 public:
  // No delay for any size.
  RateLimiter() = default;

  // Requests of this size class (size_class.h) wait `delay` after the previous request. A negative
  // delay means none.
  void set_delay(unsigned size_class, Duration delay) {
    delays_[size_class] = delay < Duration{} ? Duration{} : delay;
  }
  Duration delay(std::uint64_t bytes) const { return delays_[weir::size_class(bytes)]; }

  // When a request of `bytes` may go; if that is not after `now`, at once.
  Time next(std::uint64_t bytes) const { return any_ ? last_ + delay(bytes) : Time{INT64_MIN}; }
  bool may_inject(Time now, std::uint64_t bytes) const { return next(bytes) <= now; }

  // A request went to the adapter.
  void injected(Time now) {
    any_ = true;
    last_ = now;
  }

 private:
  std::array<Duration, size_classes> delays_{};
  bool any_ = false;
  Time last_{};
};

}  // namespace weir
