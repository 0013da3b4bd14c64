#include "tools/sim/command/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

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

struct Candidate {
  std::uint64_t chunk_bytes;
  std::uint32_t reads;  // 0: auto
  figures::Measured measured;

  bool adapts() const { return reads == 0; }
  std::string bound() const { return adapts() ? "auto" : std::to_string(reads); }
  // What all nodes have, and what the one that fares worst has: nobody shall pay for the mean.
  double worth() const {
    if (!measured.violation.empty()) return 0;
    return measured["throughput"] + 0.5 * measured["first_percentile"];
  }
};

std::string size_text(std::uint64_t bytes) {
  return config::format_size(static_cast<std::int64_t>(bytes));
}

// Of those as good as the best: what adapts first, for a cluster is never quite its model; then the
// larger chunk, which costs less work.
const Candidate& best_of(const std::vector<Candidate>& candidates) {
  double most = 0;
  for (const Candidate& candidate : candidates) most = std::max(most, candidate.worth());
  const Candidate* best = nullptr;
  for (const Candidate& other : candidates) {
    if (other.worth() < (1 - same) * most) continue;
    const bool prefers =
        best == nullptr ||
        (other.adapts() != best->adapts() ? other.adapts() : other.chunk_bytes > best->chunk_bytes);
    if (prefers) best = &other;
  }
  return *best;
}

}  // namespace

Advice advise(const network::Scenario& cluster, unsigned jobs, std::uint64_t seed,
              const std::function<void(const figures::Progress&)>& tell) {
  figures::Figure figure{.name = "advise", .said = {}, .points = {}, .claims = {}};
  std::vector<Candidate> candidates;
  network::Scenario scenario = cluster;
  scenario.from_cycles = 8'000;  // a window of 16 large chunks has come round some times
  scenario.to_cycles = 20'000;
  scenario.protocol = network::Protocol::push;
  figure.points.push_back(figures::point("no bound", 0, scenario));
  scenario.protocol = network::Protocol::reads;
  scenario.queue_bytes = shipped_queue;
  scenario.least_bytes = shipped_least;
  for (const std::uint64_t chunk : chunks) {
    for (const std::uint32_t reads : bounds) {
      scenario.chunk_bytes = chunk;
      scenario.adaptive = reads == 0;
      scenario.reads = reads;
      figure.points.push_back(figures::point(size_text(chunk), reads, scenario));
      candidates.push_back({chunk, reads, {}});
    }
  }
  const figures::Results results = figures::play({figure}, jobs, seed, tell)[0];
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].measured = results.rows[i + 1].measured;
  }
  const Candidate& best = best_of(candidates);

  Advice advice;
  advice.table = "#   chunk_size  reads_max  throughput  worst flow  packet latency us\n";
  for (const Candidate& c : candidates) {
    advice.table += fmt::format(
        "# {} {:>7} KiB {:>10} {:>11.3f} {:>11.3f} {:>18.1f} {}\n", &c == &best ? '*' : ' ',
        c.chunk_bytes >> 10, c.bound(), c.measured["throughput"], c.measured["first_percentile"],
        c.measured["latency_cycles"] * cluster.cycle_ns / 1'000, c.measured.violation);
  }
  advice.yaml = fmt::format(
      "# weir sim advise: {:.0f} % of the links' rate, {:.0f} % for the flow that fares worst;\n"
      "# without a bound {:.0f} %.\n"
      "chunk_size: {}\n"
      "reads_max: {}\n",
      100 * best.measured["throughput"], 100 * best.measured["first_percentile"],
      100 * results.rows[0].measured["throughput"], size_text(best.chunk_bytes), best.bound());
  return advice;
}

}  // namespace weir::sim
