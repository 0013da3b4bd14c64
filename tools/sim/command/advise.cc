#include "tools/sim/command/advise.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/sim/figures/runner.h"
#include "transport/config/units.h"

namespace weir::sim {
namespace {

constexpr std::uint64_t chunks[] = {32 << 10, 64 << 10, 128 << 10, 256 << 10};
constexpr std::uint32_t bounds[] = {0, 1, 2, 4, 8, 16};
// What the transport takes (BudgetController::Config, transport/config/schema.cc).
constexpr std::uint64_t shipped_queue = 128 << 10;
constexpr std::uint64_t shipped_least = 128 << 10;

// Less than that apart is the same.
constexpr double same = 0.03;

// What all nodes have, and what the one that fares worst has: nobody shall pay for the mean.
double worth(const Candidate& candidate) {
  return candidate.violation.empty() ? candidate.throughput + 0.5 * candidate.first_percentile : 0;
}

std::string yaml_of(const Advice& advice) {
  const Candidate& best = advice.candidates[advice.best];
  std::string yaml = fmt::format(
      "# weir sim advise: {:.0f} % of the links' rate, {:.0f} % for the flow that fares worst;\n"
      "# without a bound {:.0f} %.\n"
      "chunk_size: {}\n"
      "reads_max: {}\n",
      100 * best.throughput, 100 * best.first_percentile, 100 * advice.unbounded,
      config::format_size(static_cast<std::int64_t>(best.chunk_bytes)),
      best.reads == 0 ? "auto" : std::to_string(best.reads));
  if (best.reads == 0) {
    yaml += fmt::format(
        "reads_window_min: {}\n",
        config::format_size(static_cast<std::int64_t>(std::max(shipped_least, best.chunk_bytes))));
  }
  return yaml;
}

}  // namespace

Advice advise(const network::Scenario& cluster, unsigned jobs, std::uint64_t seed,
              const std::function<void(std::size_t done, std::size_t all, double left_s)>& tell) {
  figures::Figure candidates;
  Advice advice;
  network::Scenario scenario = cluster;
  scenario.from_cycles = 8'000;  // a window of 16 large chunks has come round some times
  scenario.to_cycles = 20'000;
  scenario.protocol = network::Protocol::push;
  candidates.points.push_back(figures::point("no bound", 0, scenario));
  scenario.protocol = network::Protocol::reads;
  for (const std::uint64_t chunk : chunks) {
    for (const std::uint32_t reads : bounds) {
      scenario.chunk_bytes = chunk;
      scenario.adaptive = reads == 0;
      scenario.reads = reads;
      scenario.queue_bytes = shipped_queue;
      scenario.least_bytes = shipped_least;
      candidates.points.push_back(
          figures::point(config::format_size(static_cast<std::int64_t>(chunk)), reads, scenario));
      advice.candidates.push_back({.chunk_bytes = chunk, .reads = reads, .violation = {}});
    }
  }
  const figures::Results results =
      figures::play({candidates}, jobs, seed, [&](const figures::Progress& progress) {
        if (tell) tell(progress.done, progress.points, progress.left_s);
      })[0];
  advice.unbounded = results.rows[0].measured["throughput"];
  for (std::size_t i = 0; i < advice.candidates.size(); ++i) {
    const figures::Measured& measured = results.rows[i + 1].measured;
    Candidate& candidate = advice.candidates[i];
    candidate.throughput = measured["throughput"];
    candidate.first_percentile = measured["first_percentile"];
    candidate.latency_us = measured["latency_cycles"] * cluster.cycle_ns / 1'000;
    candidate.violation = measured.violation;
  }
  double most = 0;
  for (const Candidate& candidate : advice.candidates) most = std::max(most, worth(candidate));
  // Of those as good as the best: what adapts first, for a cluster is never quite its model; then
  // the larger chunk, which costs less work.
  const auto good = [&](const Candidate& c) { return worth(c) >= (1 - same) * most; };
  for (std::size_t i = 0; i < advice.candidates.size(); ++i) {
    const Candidate& now = advice.candidates[advice.best];
    const Candidate& other = advice.candidates[i];
    if (!good(other)) continue;
    const bool prefers = (other.reads == 0) != (now.reads == 0)
                             ? other.reads == 0
                             : other.chunk_bytes > now.chunk_bytes;
    if (!good(now) || prefers) advice.best = i;
  }
  advice.yaml = yaml_of(advice);
  return advice;
}

}  // namespace weir::sim
