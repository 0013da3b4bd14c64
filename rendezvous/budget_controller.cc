#include "rendezvous/budget_controller.h"

#include <algorithm>
#include <bit>

namespace weir {

BudgetController::BudgetController(const Config& config) : config_(config) {
  config_.reads = std::max(config_.reads, 1u);
  config_.most_reads = std::max(config_.most_reads, 1u);
  config_.most_bytes = std::max(config_.most_bytes, config_.least_bytes);
  config_.queue_bytes = std::max<std::uint64_t>(config_.queue_bytes, 1);
  config_.chunk_bytes = std::max(config_.chunk_bytes, 1u);
  set_window(config_.initial_bytes);
}

void BudgetController::limit(const Config& config) {
  if (config.adaptive && !config_.adaptive) {
    phase_ = Phase::slow_start;
    window_ = config_.initial_bytes;
    begun_ = false;
  }
  config_.adaptive = config.adaptive;
  config_.reads = std::max(config.reads, 1u);
  config_.least_bytes = config.least_bytes;
  config_.most_bytes = std::max(config.most_bytes, config.least_bytes);
  set_window(window_);
}

std::uint64_t BudgetController::bytes() const {
  if (!config_.adaptive) return UINT64_MAX;
  return phase_ == Phase::probe ? 0 : window_;  // 0: one chunk at a time
}

bool BudgetController::on_read(Time now, std::uint32_t bytes, Duration rtt,
                               std::uint64_t outstanding_bytes) {
  if (!config_.adaptive) return false;
  // A probe that cannot measure ends, too: sending one chunk at a time must not last.
  if (rtt.ns <= 0) return phase_ == Phase::probe && ++probed_ >= probe_chunks && end_probe(now);
  if (phase_ == Phase::probe) {
    // A chunk posted before the probe was timed in our own queue.
    if (Time{now.ns - rtt.ns} < since_) return false;
    return on_probe(now, rtt.ns);
  }
  learn(now, rtt.ns, outstanding_bytes <= bytes);
  if (now - base_.confirmed > config_.base_age) return start_probe(now);

  if (!begun_) begin_round_trip(now);
  peak_outstanding_ = std::max(peak_outstanding_, outstanding_bytes);
  bytes_ += bytes;
  ++reads_;
  late_reads_ += now == last_look_ ? 1 : 0;
  last_look_ = now;
  queued_share_ += bytes * (1.0 - static_cast<double>(base_.ns) / static_cast<double>(rtt.ns));
  const std::uint64_t before = window_;
  // Two chunks for each that came back: doubles in a round trip, and never in one burst.
  if (phase_ == Phase::slow_start && limited_) set_window(window_ + bytes);
  // The round trip is over when a chunk posted in it is back.
  if (Time{now.ns - rtt.ns} >= since_) end_round_trip(now);
  return window_ != before;
}

void BudgetController::learn(Time now, std::int64_t ns, bool alone) {
  if (base_.ns == 0 || ns < base_.ns) {
    base_ = {ns, now};
  } else if (alone && ns <= base_.ns + base_.ns / 8) {
    base_.confirmed = now;
  }
  sounding_due_ = 2 * (now - base_.confirmed).ns > config_.base_age.ns;
}

bool BudgetController::start_probe(Time now) {
  phase_ = Phase::probe;
  since_ = now;
  probed_ = 0;
  ++probes_;
  return true;
}

bool BudgetController::on_probe(Time now, std::int64_t ns) {
  if (base_.confirmed < since_) base_.ns = ns;
  base_ = {std::min(base_.ns, ns), now};
  return ++probed_ >= probe_chunks && end_probe(now);
}

bool BudgetController::end_probe(Time now) {
  base_.confirmed = now;
  sounding_due_ = false;
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
  reads_ = 0;
  late_reads_ = 0;
  queued_share_ = 0;
}

void BudgetController::end_round_trip(Time now) {
  // The chunks that came back were posted before this round trip, when the window was no larger
  // than at its start.
  const std::uint64_t used = std::min(window_before_, peak_outstanding_);
  const bool judged = !settling_;
  const bool limited = limited_;
  const bool late = 2 * late_reads_ >= reads_;
  queued_ = static_cast<std::uint64_t>(static_cast<double>(used) * queued_share_ / bytes_);
  const std::uint64_t q = queue_for(used - std::min(used, queued_));
  begin_round_trip(now);
  if (!judged) return;

  if (phase_ == Phase::slow_start) {
    if (queued_ <= q) return;
    phase_ = Phase::steady;
    set_window(used - (queued_ - q));
    settling_ = true;
  } else if (queued_ > 2 * q) {
    quiet_ = 0;
    ++cuts_;
    const std::uint64_t cut = std::max<std::uint64_t>(chunk_, (queued_ - 2 * q) / 2);
    set_window(used - std::min(used, cut));
  } else if (queued_ < q && limited) {
    set_window(window_ + chunk_);
    quiet_ = queued_ < q / 2 ? quiet_ + 1 : 0;
    if (quiet_ == quiet_round_trips) {
      quiet_ = 0;
      phase_ = Phase::slow_start;
    }
  } else {
    quiet_ = 0;
  }
  if (late) set_window(std::max(window_, 2 * config_.queue_bytes));
}

// How many bytes may queue while `moving_bytes` are under way. On a long way a chunk's own time on
// the links must not count as a queue.
std::uint64_t BudgetController::queue_for(std::uint64_t moving_bytes) const {
  const std::uint64_t most = std::max(config_.queue_bytes, moving_bytes / moving_of_queue);
  return std::clamp(queue_of_moving * moving_bytes,
                    std::min<std::uint64_t>(least_chunk, config_.queue_bytes), most);
}

void BudgetController::set_window(std::uint64_t bytes) {
  window_ = std::clamp(bytes, config_.least_bytes, config_.most_bytes);
  const std::uint64_t part = std::max<std::uint64_t>(window_ / chunks_of_window, least_chunk);
  chunk_ = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::bit_floor(part), config_.chunk_bytes));
}

}  // namespace weir
