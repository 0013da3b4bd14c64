#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "tools/sim/figures/figure.h"
#include "tools/sim/world.h"

namespace weir::sim::figures {
namespace {

constexpr std::array entries = {Entry{"rdrp-fig1"},
                                Entry{"rdrp-fig4"},
                                Entry{"rdrp-fig5"},
                                Entry{"routing"},
                                Entry{"adaptive"},
                                Entry{"arws-fig2", arws_fig2},
                                Entry{"arws-fig3", arws_fig3},
                                Entry{"core-scale"},
                                Entry{"core-budget"},
                                Entry{"tok-rate", tok_rate},
                                Entry{"tok-cores", tok_cores}};

constexpr double none = std::numeric_limits<double>::quiet_NaN();

}  // namespace

std::span<const Entry> all() { return entries; }

const Entry* find(const std::string& name) {
  const auto at = std::find_if(entries.begin(), entries.end(),
                               [&](const Entry& entry) { return name == entry.name; });
  return at == entries.end() ? nullptr : &*at;
}

Figure make(const Entry& entry, Size size, const Claims& claims) {
  Figure figure{
      .name = entry.name,
      .said = {},
      .points = entry.make != nullptr ? entry.make(size) : scenario_points(entry.name, size)};
  if (const auto said = claims.find(entry.name); said != claims.end()) figure.said = said->second;
  return figure;
}

std::vector<double> Results::all(const std::string& series, double x,
                                 const std::string& value) const {
  std::vector<double> found;
  for (const Row& row : rows) {
    if (row.series == series && row.x == x) found.push_back(row.measured[value]);
  }
  return found;
}

double Results::mean(const std::string& series, double x, const std::string& value) const {
  const std::vector<double> found = all(series, x, value);
  return std::accumulate(found.begin(), found.end(), 0.0) / static_cast<double>(found.size());
}

double Results::median(const std::string& series, double x, const std::string& value) const {
  std::vector<double> found = all(series, x, value);
  std::sort(found.begin(), found.end());
  return found.empty() ? none : found[found.size() / 2];
}

double Results::best(const std::string& series, const std::string& value) const {
  double best = none;
  for (const Row& row : rows) {
    if (row.series == series) best = std::fmax(best, mean(series, row.x, value));
  }
  return best;
}

double Results::most(const std::vector<Term>& terms, Size size) const {
  double most = none;
  for (const Term& term : terms) {
    const double x = term.x[static_cast<int>(size)];
    most = std::fmax(most, term.how == "best"     ? best(term.series, term.value)
                           : term.how == "median" ? median(term.series, x, term.value)
                                                  : mean(term.series, x, term.value));
  }
  return most;
}

Measured play(const Plan& plan, const std::function<Values(const Outcome&)>& values) {
  const Outcome outcome = run(plan);
  return {.values = values(outcome),
          .events = outcome.steps,
          .trace_hash = mix(static_cast<std::uint64_t>(outcome.end.ns) ^ outcome.steps),
          .violation = outcome.ok() ? "" : outcome.violations.front()};
}

Point point(std::string series, double x, const network::Scenario& scenario, std::uint32_t seeds) {
  return {.series = std::move(series), .x = x, .seeds = seeds, .play = [scenario](auto seed) {
            return run(scenario, seed);
          }};
}

}  // namespace weir::sim::figures
