// What [RDRP] leaves open: which routing collapses, whose budget it is, what c a user shall take.
#include <algorithm>
#include <array>
#include <cmath>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {
namespace {

using network::BudgetOf;
using network::Pattern;
using network::Protocol;
using network::Routing;
using network::Scenario;

constexpr std::uint32_t one_percent = 11;  // of 1,056 nodes

Scenario base(Size size) {
  Scenario scenario;
  scenario.fabric.topology = middle_dragonfly();
  if (size == Size::smoke) {
    scenario.from_cycles = 3'000;
    scenario.to_cycles = 5'000;
  }
  return scenario;
}

}  // namespace

Figure routing_variants(Size size) {
  Figure figure;
  struct Variant {
    const char* name;
    Routing routing;
    double bias;
  };
  constexpr std::array variants = {Variant{"minimal", Routing::minimal, 1},
                                   Variant{"valiant", Routing::valiant, 1},
                                   Variant{"ugal", Routing::ugal, 1},
                                   Variant{"ugal, bias 2", Routing::ugal, 2},
                                   Variant{"progressive", Routing::progressive, 1},
                                   Variant{"progressive, bias 2", Routing::progressive, 2}};
  for (const Variant& variant : variants) {
    if (size == Size::smoke && variant.routing == Routing::ugal) continue;
    for (const std::uint32_t slow : {0u, one_percent}) {
      Scenario scenario = base(size);
      scenario.slow = {{slow, 8}};
      scenario.fabric.switching.routing = variant.routing;
      scenario.fabric.switching.bias = variant.bias;
      figure.points.push_back(point(variant.name, slow, scenario, seeds(size)));
    }
  }
  return figure;
}

Figure budget_per_node(Size size) {
  Figure figure;
  const auto add = [&](const char* series, std::uint32_t c, std::uint32_t factor, BudgetOf of,
                       bool own_lane = true) {
    Scenario scenario = base(size);
    scenario.pattern = Pattern::incast;
    scenario.receivers = one_percent;
    scenario.senders = 16;
    scenario.slow = {{one_percent, factor}};
    scenario.protocol = Protocol::reads;
    scenario.reads = c;
    scenario.budget_of = of;
    scenario.fabric.switching.request_lanes = own_lane;
    figure.points.push_back(point(series, c, scenario, seeds(size)));
  };
  for (const std::uint32_t c : axis(size, {4, 16, 30}, {4, 30})) {
    add("of a transfer, 4x", c, 4, BudgetOf::transfer);
    add("of the node, 4x", c, 4, BudgetOf::node);
  }
  add("of a transfer, 4x, one lane", 30, 4, BudgetOf::transfer, false);
  add("of the node, 4x, one lane", 30, 4, BudgetOf::node, false);
  add("of a transfer, fast", 30, 1, BudgetOf::transfer);
  add("of the node, fast", 30, 1, BudgetOf::node);
  return figure;
}

Figure request_lane(Size size) {
  Figure figure;
  for (const bool own : {true, false}) {
    for (const std::uint32_t c : axis(size, {8, 16, 30, 60}, {30})) {
      Scenario scenario = base(size);
      scenario.slow = {{one_percent, 8}};
      scenario.protocol = Protocol::reads;
      scenario.reads = c;
      scenario.fabric.switching.request_lanes = own;
      figure.points.push_back(point(own ? "own lane" : "with data", c, scenario, seeds(size)));
    }
  }
  return figure;
}

namespace {

struct Fabric {
  const char* name;
  std::uint32_t vc_flits;
  std::uint32_t local_cycles;
  std::uint32_t global_cycles;
};

constexpr std::array fabrics = {
    Fabric{"256 flits, 2/10", 256, 2, 10}, Fabric{"64 flits, 2/10", 64, 2, 10},
    Fabric{"1024 flits, 2/10", 1024, 2, 10}, Fabric{"256 flits, 10/100", 256, 10, 100},
    Fabric{"256 flits, 40/400", 256, 40, 400}};

// What a setting has of the best constant of each fabric: the worst and the mean.
struct Regret {
  double worst = 1;
  double mean = 0;
};

Regret regret(const Results& r, double x) {
  Regret regret;
  for (const Fabric& fabric : fabrics) {
    double best = 0;
    for (const Results::Row& row : r.rows) {
      if (row.series == fabric.name && row.x > 0) {
        best = std::fmax(best, r.mean(fabric.name, row.x));
      }
    }
    const double part = r.mean(fabric.name, x) / best;
    regret.worst = std::min(regret.worst, part);
    regret.mean += part / fabrics.size();
  }
  return regret;
}

}  // namespace

Figure adaptive_budget(Size size) {
  const bool full = size == Size::full;
  Figure figure;
  const Axis reads = axis(size, {0, 4, 8, 16, 30, 60}, {0, 16});
  for (const Fabric& fabric : fabrics) {
    if (!full && &fabric != &fabrics[0]) break;
    for (const std::uint32_t c : reads) {
      Scenario scenario = base(size);
      scenario.slow = {{35, 2}, {35, 4}, {35, 8}};
      scenario.fabric.switching.vc_flits = fabric.vc_flits;
      scenario.fabric.switching.local_cycles = fabric.local_cycles;
      scenario.fabric.switching.global_cycles = fabric.global_cycles;
      scenario.protocol = Protocol::reads;
      scenario.adaptive = c == 0;
      scenario.reads = c;
      figure.points.push_back(point(fabric.name, c, scenario, seeds(size)));
    }
  }
  figure.claims = [reads](const Results& r) {
    const Regret adaptive = regret(r, 0);
    Regret best{.worst = 0};  // of the constants; not of one and the same
    for (const std::uint32_t c : reads) {
      if (c == 0) continue;
      best.worst = std::max(best.worst, regret(r, c).worst);
      best.mean = std::max(best.mean, regret(r, c).mean);
    }
    return Values{{"adaptive-worst", adaptive.worst},
                  {"adaptive-mean", adaptive.mean},
                  {"constant-worst", best.worst},
                  {"constant-mean", best.mean}};
  };
  return figure;
}

}  // namespace weir::sim::figures
