// What one rail has to move, and how fast it moves: the bytes that came while there were any to
// come, by the time that took. What is measured late, because the application computed, is late on
// all rails, and so divides the next message as the last one.
//
// Pure; the caller serialises.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace weir {

class RailMeter {
 public:
  void begin(Time now, std::uint64_t bytes) {
    if (waiting_bytes_ == 0) since_ = now;
    waiting_bytes_ += bytes;
  }

  // A part is over. One that is lost says nothing of the rate.
  void end(Time now, std::uint64_t bytes, bool came) {
    waiting_bytes_ -= bytes;
    moved_bytes_ += came ? bytes : 0;
    if (waiting_bytes_ > 0 && moved_bytes_ < sample_bytes) return;
    const std::int64_t took = (now - since_).ns;
    if (came && took > 0) {
      const double rate = static_cast<double>(moved_bytes_) * 1e9 / static_cast<double>(took);
      rate_ = rate_ == 0 ? rate : rate_ + (rate - rate_) / 2;
    }
    moved_bytes_ = 0;
    since_ = now;
  }

  std::uint64_t waiting_bytes() const { return waiting_bytes_; }
  // Bytes a second; 0: not measured yet.
  double rate() const { return rate_; }

 private:
  static constexpr std::uint64_t sample_bytes = 4 << 20;

  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t moved_bytes_ = 0;  // since then
  Time since_{};
  double rate_ = 0;
};

}  // namespace weir
