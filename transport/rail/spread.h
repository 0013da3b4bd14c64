// How the large gets from one peer are spread over several lanes, each of which may take a path of
// its own through the fabric: a chunk goes over the lane that finishes it first. Which lane
// takes which path is not known here; two that share one are slower, and so get less.
//
// A lane is slow if nothing has come over it for long, while the others have moved what it has to
// move. It is left, as a rail is (way.h): its queue pair is destroyed, its chunks go over the
// others, and after a pause that doubles there may be another one.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "transport/rail/meter.h"
#include "transport/rail/way.h"

namespace weir {

class Spread {
 public:
  static constexpr std::size_t most_lanes = 8;
  using Lanes = std::uint8_t;  // a bit for each

  // Less silence says nothing: both ends may wait for a core.
  static constexpr Duration least_silence = milliseconds(50);

  // The lane in `may`, which is not empty, that finishes so many bytes first.
  std::size_t choose(Lanes may, std::uint64_t bytes) {
    const double unknown = best_rate();
    std::size_t best = most_lanes;
    double best_end = 0;
    for (std::size_t i = 0; i < most_lanes; ++i) {
      const std::size_t lane = (turn_ + i) % most_lanes;
      if ((may >> lane & 1) == 0) continue;
      const Load& load = loads_[lane];
      const double measured = load.meter.rate() > 0 ? load.meter.rate() : unknown;
      const double rate = measured * load.way.share() / Way::whole;
      const double end = static_cast<double>(load.meter.waiting_bytes() + bytes) / rate;
      if (best != most_lanes && end >= best_end) continue;
      best = lane;
      best_end = end;
    }
    turn_ = (best + 1) % most_lanes;
    return best;
  }

  // A chunk is given to the lane.
  void begin(Time now, std::size_t lane, std::uint64_t bytes) {
    Load& load = loads_[lane];
    if (load.meter.waiting_bytes() == 0) load.heard(now);
    load.meter.begin(now, bytes);
    waiting_bytes_ += bytes;
  }
  // It is there.
  void end(Time now, std::size_t lane, std::uint64_t bytes) {
    for (Load& other : loads_) other.passed_bytes += bytes;
    Load& load = loads_[lane];
    load.meter.end(now, bytes, true);
    load.heard(now);
    load.way.carry();
    waiting_bytes_ -= bytes;
  }
  // It is lost with the lane.
  void lose(Time now, std::size_t lane, std::uint64_t bytes) {
    loads_[lane].meter.end(now, bytes, false);
    waiting_bytes_ -= bytes;
  }

  // A lane to be left, of those in `used`.
  std::optional<std::size_t> slow(Time now, Lanes used) const {
    for (std::size_t lane = 0; lane < most_lanes; ++lane) {
      if ((used >> lane & 1) != 0 && is_slow(now, lane, used)) return lane;
    }
    return std::nullopt;
  }
  // The lane is left, or could not be had. Whoever makes another one waits until it `may_be_made`.
  void leave(Time now, std::size_t lane) { loads_[lane].way.lose(now); }
  bool may_be_made(Time now, std::size_t lane) const { return loads_[lane].way.is_open(now); }
  // There is another one, whose path is not that of the last one.
  void begin_anew(std::size_t lane) { loads_[lane].meter = {}; }

  // Nothing is under way any more. What is known of the lanes' paths ends with their pairs.
  void clear() {
    for (Load& load : loads_) load.meter = {};
    waiting_bytes_ = 0;
  }

  std::uint64_t waiting_bytes() const { return waiting_bytes_; }
  const RailMeter& meter(std::size_t lane) const { return loads_[lane].meter; }
  const Way& way(std::size_t lane) const { return loads_[lane].way; }

 private:
  struct Load {
    Way way;
    RailMeter meter;
    Time heard_at{};                 // something came, or it had nothing to wait for
    std::uint64_t passed_bytes = 0;  // over the others since then

    void heard(Time now) {
      heard_at = now;
      passed_bytes = 0;
    }
  };

  double best_rate() const {
    double best = 0;
    for (const Load& load : loads_) best = std::max(best, load.meter.rate());
    return best > 0 ? best : 1;
  }

  // If all share one path, everything that waits comes before its chunk; four times that is no
  // accident. If the others have stood still, too, the peer is silent, or this process was.
  bool is_slow(Time now, std::size_t lane, Lanes used) const {
    const Load& load = loads_[lane];
    const std::uint64_t waiting = load.meter.waiting_bytes();
    if (waiting == 0 || load.passed_bytes < waiting / 2 || load.passed_bytes == 0) return false;
    double rates = 0;
    for (std::size_t other = 0; other < most_lanes; ++other) {
      if (other != lane && (used >> other & 1) != 0) rates += loads_[other].meter.rate();
    }
    if (rates <= 0) return false;
    const double patience = 4e9 * static_cast<double>(waiting_bytes_) / rates;
    const std::int64_t silence = (now - load.heard_at).ns;
    return silence >= least_silence.ns && static_cast<double>(silence) >= patience;
  }

  std::array<Load, most_lanes> loads_;
  std::uint64_t waiting_bytes_ = 0;
  std::size_t turn_ = 0;
};

}  // namespace weir
