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
constexpr std::uint64_t shipped_chunk = 128 << 10;

// Less than that apart is the same.
constexpr double same = 0.03;

// What all nodes have, and what the one that fares worst has: nobody shall pay for the mean.
double worth_of(const figures::Measured& measured) {
  if (!measured.violation.empty()) return 0;
  return measured["throughput"] + 0.5 * measured["first_percentile"];
}

struct Candidate {
  std::uint64_t chunk_bytes;
  std::uint32_t reads;                       // 0: auto
  std::vector<figures::Measured> with_seed;  // one for each

  bool adapts() const { return reads == 0; }
  bool is_default() const { return adapts() && chunk_bytes == shipped_chunk; }
  std::string bound() const { return adapts() ? "auto" : std::to_string(reads); }

  double mean(const char* number) const {
    double sum = 0;
    for (const figures::Measured& measured : with_seed) sum += measured[number];
    return sum / static_cast<double>(with_seed.size());
  }
  double worth() const {
    double sum = 0;
    for (const figures::Measured& measured : with_seed) sum += worth_of(measured);
    return sum / static_cast<double>(with_seed.size());
  }
  std::string violation() const {
    for (const figures::Measured& measured : with_seed) {
      if (!measured.violation.empty()) return measured.violation;
    }
    return "";
  }
};

std::string size_text(std::uint64_t bytes) {
  return config::format_size(static_cast<std::int64_t>(bytes));
}

double most_worth(const std::vector<Candidate>& candidates) {
  double most = 0;
  for (const Candidate& candidate : candidates) most = std::max(most, candidate.worth());
  return most;
}

bool is_as_good(const Candidate& one, double most) { return one.worth() >= (1 - same) * most; }

// Of those as good as the best: what adapts first, for a cluster is never quite its model; then the
// larger chunk, which costs less work.
const Candidate& best_of(const std::vector<Candidate>& candidates) {
  const double most = most_worth(candidates);
  const Candidate* best = nullptr;
  for (const Candidate& other : candidates) {
    if (!is_as_good(other, most)) continue;
    const bool prefers =
        best == nullptr ||
        (other.adapts() != best->adapts() ? other.adapts() : other.chunk_bytes > best->chunk_bytes);
    if (prefers) best = &other;
  }
  return *best;
}

// How far the choice is behind what is best with the one seed with which that is most.
double shortfall(const Candidate& choice, const std::vector<Candidate>& candidates) {
  double behind = 0;
  for (std::size_t seed = 0; seed < choice.with_seed.size(); ++seed) {
    double most = 0;
    for (const Candidate& other : candidates)
      most = std::max(most, worth_of(other.with_seed[seed]));
    if (most > 0) behind = std::max(behind, 1 - worth_of(choice.with_seed[seed]) / most);
  }
  return behind;
}

// How much the advice depends on chance, and whether it matters at all.
std::string sureness(const Candidate& best, const std::vector<Candidate>& candidates) {
  const double most = most_worth(candidates);
  const auto as_good = std::count_if(candidates.begin(), candidates.end(),
                                     [&](const Candidate& one) { return is_as_good(one, most); });
  const double behind = shortfall(best, candidates);
  std::string text = fmt::format(
      "# {}: at most {:.0f} % behind the best choice with each of {} seeds; {} of {} choices do as "
      "well.\n",
      behind <= same ? "Sure" : "Not sure", 100 * behind, best.with_seed.size(), as_good,
      candidates.size());
  const auto shipped = std::find_if(candidates.begin(), candidates.end(),
                                    [](const Candidate& one) { return one.is_default(); });
  if (!best.is_default() && shipped != candidates.end()) {
    text += fmt::format("# The defaults have {:.0f} % of the links' rate, and {:.0f} %.\n",
                        100 * shipped->mean("throughput"), 100 * shipped->mean("first_percentile"));
  }
  return text;
}

}  // namespace

Advice advise(const network::Scenario& cluster, unsigned jobs, std::uint64_t seed,
              std::uint32_t seeds, const std::function<void(const figures::Progress&)>& tell) {
  figures::Figure figure{.name = "advise", .said = {}, .points = {}, .claims = {}};
  std::vector<Candidate> candidates;
  network::Scenario scenario = cluster;
  scenario.from_cycles = 25'000;  // what adapts has come to rest
  scenario.to_cycles = 40'000;
  scenario.protocol = network::Protocol::push;
  figure.points.push_back(figures::point("no bound", 0, scenario, seeds));
  scenario.protocol = network::Protocol::reads;
  scenario.queue_bytes = shipped_queue;
  scenario.least_bytes = shipped_least;
  for (const std::uint64_t chunk : chunks) {
    for (const std::uint32_t reads : bounds) {
      scenario.chunk_bytes = chunk;
      scenario.adaptive = reads == 0;
      scenario.reads = reads;
      figure.points.push_back(figures::point(size_text(chunk), reads, scenario, seeds));
      candidates.push_back({chunk, reads, {}});
    }
  }
  const figures::Results results = figures::play({figure}, jobs, seed, tell)[0];
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    for (std::size_t k = 0; k < seeds; ++k) {
      candidates[i].with_seed.push_back(results.rows[(i + 1) * seeds + k].measured);
    }
  }
  const Candidate& best = best_of(candidates);

  Advice advice;
  advice.table = "#   chunk_size  reads_max  throughput  worst flow  packet latency us\n";
  for (const Candidate& c : candidates) {
    advice.table += fmt::format("# {} {:>7} KiB {:>10} {:>11.3f} {:>11.3f} {:>18.1f} {}\n",
                                &c == &best ? '*' : ' ', c.chunk_bytes >> 10, c.bound(),
                                c.mean("throughput"), c.mean("first_percentile"),
                                c.mean("latency_cycles") * cluster.cycle_ns / 1'000, c.violation());
  }
  advice.yaml = fmt::format(
      "# weir sim advise: {:.0f} % of the links' rate, {:.0f} % for the flow that fares worst;\n"
      "# without a bound {:.0f} %.\n"
      "{}"
      "chunk_size: {}\n"
      "reads_max: {}\n",
      100 * best.mean("throughput"), 100 * best.mean("first_percentile"),
      100 * results.mean("no bound", 0), sureness(best, candidates), size_text(best.chunk_bytes),
      best.bound());
  return advice;
}

}  // namespace weir::sim
