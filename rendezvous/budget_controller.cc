#include "rendezvous/budget_controller.h"

#include <algorithm>
#include <bit>

namespace weir {

BudgetController::BudgetController(const Config& config) : config_(config) {
  config_.reads = std::max(config_.reads, 1u);
  config_.most_reads = std::max(config_.most_reads, 1u);
  config_.most_bytes = std::max(config_.most_bytes, config_.least_bytes);
  config_.queue_bytes = std::max<std::uint64_t>(config_.queue_bytes, 1);
  config_.step_bytes = std::max<std::uint64_t>(config_.step_bytes, 1);
  window_ = std::clamp(config_.initial_bytes, config_.least_bytes, config_.most_bytes);
}

std::uint64_t BudgetController::bytes() const {
  if (!config_.adaptive) return UINT64_MAX;
  return phase_ == Phase::probe ? 0 : window_;  // 0: one chunk at a time
}

unsigned BudgetController::size_class(std::uint32_t bytes) {
  if (bytes < 4) return bytes;
  const auto octave = static_cast<unsigned>(std::bit_width(bytes)) - 1;
  return octave * 4 + ((bytes >> (octave - 2)) & 3u);
}

bool BudgetController::on_read(Time now, std::uint32_t bytes, Duration rtt,
                               std::uint64_t outstanding_bytes) {
  if (!config_.adaptive) return false;
  // A probe that cannot measure ends, too: sending one chunk at a time must not last.
  if (rtt.ns <= 0) return phase_ == Phase::probe && ++probed_ >= probe_chunks && end_probe(now);
  const unsigned size = size_class(bytes);
  if (phase_ == Phase::probe) {
    // A chunk posted before the probe was timed in our own queue.
    if (Time{now.ns - rtt.ns} < since_) return false;
    return on_probe(now, size, rtt.ns);
  }
  Base& base = bases_[size];
  learn(base, size, now, rtt.ns);
  if (outstanding_bytes <= bytes && rtt.ns <= base.ns + base.ns / 8) base.confirmed = now;
  if (now - base.confirmed > config_.base_age) return start_probe(now);

  if (!begun_) begin_round_trip(now);
  peak_outstanding_ = std::max(peak_outstanding_, outstanding_bytes);
  bytes_ += bytes;
  queued_share_ += bytes * (1.0 - static_cast<double>(base.ns) / static_cast<double>(rtt.ns));
  const std::uint64_t before = window_;
  // Two chunks for each that came back: doubles in a round trip, and never in one burst.
  if (phase_ == Phase::slow_start && limited_) set_window(window_ + bytes);
  // The round trip is over when a chunk posted in it is back.
  if (Time{now.ns - rtt.ns} >= since_) end_round_trip(now);
  return window_ != before;
}

void BudgetController::learn(Base& base, unsigned size, Time now, std::int64_t ns) {
  if (base.ns == 0) {
    base = {ns, now, 0};
    for (unsigned larger = size + 1; larger < size_classes; ++larger) {
      if (bases_[larger].ns > 0) base.ns = std::min(base.ns, bases_[larger].ns);
    }
  }
  if (ns < base.ns) base = {ns, now, 0};
}

bool BudgetController::start_probe(Time now) {
  phase_ = Phase::probe;
  since_ = now;
  probed_ = 0;
  ++probes_;
  return true;
}

bool BudgetController::on_probe(Time now, unsigned size, std::int64_t ns) {
  Base& base = bases_[size];
  if (base.confirmed < since_) base = {ns, now, base.ns};
  base.ns = std::min(base.ns, ns);
  return ++probed_ >= probe_chunks && end_probe(now);
}

bool BudgetController::end_probe(Time now) {
  // The time by which the route got longer, which is the same for every size.
  std::int64_t longer = INT64_MAX;
  for (const Base& base : bases_) {
    if (base.before > 0) longer = std::min(longer, base.ns - base.before);
  }
  if (longer == INT64_MAX) longer = 0;  // nothing to compare
  for (Base& base : bases_) {
    if (base.ns > 0 && base.confirmed < since_) {
      base.ns = std::max<std::int64_t>(base.ns + longer, 1);
      base.confirmed = now;
    }
    base.before = 0;
  }
  phase_ = Phase::steady;
  begin_round_trip(now);
  return true;
}

void BudgetController::begin_round_trip(Time now) {
  begun_ = true;
  since_ = now;
  window_before_ = window_;
  settling_ = false;
  limited_ = false;
  peak_outstanding_ = 0;
  bytes_ = 0;
  queued_share_ = 0;
}

void BudgetController::end_round_trip(Time now) {
  // The chunks that came back were posted before this round trip, when the window was no larger
  // than at its start.
  const std::uint64_t used = std::min(window_before_, peak_outstanding_);
  const bool judged = !settling_;
  const bool limited = limited_;
  queued_ = static_cast<std::uint64_t>(static_cast<double>(used) * queued_share_ / bytes_);
  const std::uint64_t q = queue_for(used - std::min(used, queued_));
  begin_round_trip(now);
  if (!judged) return;

  if (phase_ == Phase::slow_start) {
    if (queued_ <= q) return;
    phase_ = Phase::steady;
    set_window(std::max(2 * q, used - (queued_ - q)));
    settling_ = true;
  } else if (queued_ > 2 * q) {
    quiet_ = 0;
    ++cuts_;
    const std::uint64_t cut = std::max(config_.step_bytes, (queued_ - 2 * q) / 2);
    // `queued_` is at most `used`, so at least 2q is left.
    set_window(std::max(2 * q, used - std::min(used, cut)));
  } else if (queued_ < q && limited) {
    set_window(window_ + config_.step_bytes);
    quiet_ = queued_ < q / 2 ? quiet_ + 1 : 0;
    if (quiet_ == quiet_round_trips) {
      quiet_ = 0;
      phase_ = Phase::slow_start;
    }
  } else {
    quiet_ = 0;
  }
}

// How many bytes may queue while `moving_bytes` are under way.
std::uint64_t BudgetController::queue_for(std::uint64_t moving_bytes) const {
  const std::uint64_t most = config_.queue_bytes;
  return std::clamp(queue_of_moving * moving_bytes,
                    std::min(least_steps * config_.step_bytes, most), most);
}

void BudgetController::set_window(std::uint64_t bytes) {
  window_ = std::clamp(bytes, config_.least_bytes, config_.most_bytes);
}

}  // namespace weir
