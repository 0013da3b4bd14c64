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
                                Entry{"budget"},
                                Entry{"adaptive", adaptive_budget},
                                Entry{"lane"},
                                Entry{"outage"},
                                Entry{"workloads"},
                                Entry{"arws-fig2", arws_fig2},
                                Entry{"arws-fig3", arws_fig3},
                                Entry{"core-window"},
                                Entry{"core-scale"},
                                Entry{"core-budget"},
                                Entry{"core-sharing"},
                                Entry{"core-tokens"},
                                Entry{"tok-rate", tok_rate},
                                Entry{"tok-cores", tok_cores}};

}  // namespace

std::span<const Entry> all() { return entries; }

const Entry* find(const std::string& name) {
  const auto at = std::find_if(entries.begin(), entries.end(),
                               [&](const Entry& entry) { return name == entry.name; });
  return at == entries.end() ? nullptr : &*at;
}

Figure make(const Entry& entry, Size size, const Claims& claims) {
  Figure figure = entry.make == nullptr ? Figure{} : entry.make(size);
  figure.name = entry.name;
  for (Point& point : scenario_points(entry.name, size)) figure.points.push_back(std::move(point));
  if (const auto said = claims.find(entry.name); said != claims.end()) figure.said = said->second;
  return figure;
}

Values numbers(const Figure& figure, const Results& results, Size size) {
  Values numbers = figure.claims ? figure.claims(results) : Values{};
  for (const auto& [name, claim] : figure.said.claims) {
    if (claim.number.empty() || !claim.band(size)) continue;
    const double over = claim.over.empty() ? 1 : results.most(claim.over, size);
    numbers.emplace_back(name, results.most(claim.number, size) / over);
  }
  return numbers;
}

std::vector<double> Results::all(const std::string& series, double x,
                                 const std::string& value) const {
  std::vector<double> found;
  for (const Row& row : rows) {
    if (row.series != series || row.x != x) continue;
    found.push_back(row.measured[value]);
  }
  return found;
}

double Results::mean(const std::string& series, double x, const std::string& value) const {
  const std::vector<double> found = all(series, x, value);
  return std::accumulate(found.begin(), found.end(), 0.0) / static_cast<double>(found.size());
}

double Results::median(const std::string& series, double x, const std::string& value) const {
  std::vector<double> found = all(series, x, value);
  if (found.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2);
  std::nth_element(found.begin(), middle, found.end());
  return *middle;
}

double Results::best(const std::string& series) const {
  double best = 0;
  for (const Row& row : rows) {
    if (row.series == series) best = std::max(best, mean(series, row.x));
  }
  return best;
}

double Results::most(const std::vector<Term>& terms, Size size) const {
  double most = std::numeric_limits<double>::quiet_NaN();
  for (const Term& term : terms) {
    const double x = term.x[static_cast<int>(size)];
    const double number = term.how == "best"     ? best(term.series)
                          : term.how == "median" ? median(term.series, x, term.value)
                                                 : mean(term.series, x, term.value);
    most = std::fmax(most, number);
  }
  return most;
}

Measured play(const Plan& plan, const std::function<Values(const Outcome&)>& values) {
  const Outcome outcome = run(plan);
  return {.values = values(outcome),
          .windows = {},
          .events = outcome.steps,
          .trace_hash = mix(static_cast<std::uint64_t>(outcome.end.ns) ^ outcome.steps),
          .violation = outcome.ok() ? "" : outcome.violations.front()};
}

Point point(std::string series, double x, const network::Scenario& scenario, std::uint32_t seeds,
            double cost) {
  const std::uint32_t nodes = scenario.fabric.topology.nodes();
  const bool core = scenario.endpoints == network::EndpointsAre::core;
  const double reads = scenario.protocol == network::Protocol::reads ? 2 : 1;
  const double guess = core ? 0.01 * nodes * scenario.processes
                            : reads * 7e-8 * nodes * static_cast<double>(scenario.to_cycles);
  return {.series = std::move(series),
          .x = x,
          .seeds = seeds,
          .cost = cost > 0 ? cost : guess,
          .play = [scenario](std::uint64_t seed) { return run(scenario, seed); }};
}

}  // namespace weir::sim::figures
