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
  if (!config_.adaptive || rtt.ns <= 0) return false;
  const unsigned size = size_class(bytes);
  if (phase_ == Phase::probe) {
    // What was posted before the probe was timed in our own queue.
    if (Time{now.ns - rtt.ns} < since_) return false;
    return on_probe(now, size, rtt.ns);
  }
  Base& base = bases_[size];
  learn(base, size, now, rtt.ns);
  if (now - base.confirmed > config_.base_age) return start_probe(now);

  if (!begun_) begin_round_trip(now);
  peak_outstanding_ = std::max(peak_outstanding_, outstanding_bytes);
  bytes_ += bytes;
  queued_share_ += bytes * (1.0 - static_cast<double>(base.ns) / static_cast<double>(rtt.ns));
  // Over when a chunk that was posted in it is back.
  return Time{now.ns - rtt.ns} >= since_ && end_round_trip(now);
}

void BudgetController::learn(Base& base, unsigned size, Time now, std::int64_t ns) {
  if (base.ns == 0) {
    base = {ns, now};
    for (unsigned larger = size + 1; larger < size_classes; ++larger) {
      if (bases_[larger].ns > 0) base.ns = std::min(base.ns, bases_[larger].ns);
    }
  }
  base.ns = std::min(base.ns, ns);
  if (ns <= base.ns + base.ns / 8) base.confirmed = now;
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
  if (base.confirmed < since_) base = {ns, now};
  learn(base, size, now, ns);
  if (++probed_ < probe_chunks) return false;
  for (Base& other : bases_) {
    if (other.confirmed < since_) other = {};  // as old as the one that was wrong
  }
  phase_ = Phase::steady;
  begin_round_trip(now);
  settling_ = true;
  return true;
}

void BudgetController::begin_round_trip(Time now) {
  begun_ = true;
  since_ = now;
  settling_ = false;
  limited_ = false;
  peak_outstanding_ = 0;
  bytes_ = 0;
  queued_share_ = 0;
}

bool BudgetController::end_round_trip(Time now) {
  const std::uint64_t before = window_;
  const std::uint64_t used = std::min(window_, peak_outstanding_);
  const bool judged = !settling_;
  const bool limited = limited_;
  const std::uint64_t q = config_.queue_bytes;
  queued_ = static_cast<std::uint64_t>(static_cast<double>(used) * queued_share_ / bytes_);
  begin_round_trip(now);
  if (!judged) return false;

  if (phase_ == Phase::slow_start) {
    if (queued_ > q) {
      phase_ = Phase::steady;
      set_window(used - (queued_ - q));
      settling_ = true;
    } else if (limited) {
      set_window(window_ * 2);
      settling_ = true;
    }
  } else if (queued_ > 2 * q) {
    quiet_ = 0;
    ++cuts_;
    const std::uint64_t cut = std::max(config_.step_bytes, (queued_ - 2 * q) / 2);
    // `queued_` is at most `used`, so 2q at least is left.
    set_window(std::max(2 * q, used - std::min(used, cut)));
    settling_ = cut > config_.step_bytes;
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
  return window_ != before;
}

void BudgetController::set_window(std::uint64_t bytes) {
  window_ = std::clamp(bytes, config_.least_bytes, config_.most_bytes);
}

}  // namespace weir
