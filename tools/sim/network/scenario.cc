#include "tools/sim/network/scenario.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "tools/sim/network/traffic.h"
#include "tools/sim/network/whole_core.h"

namespace weir::sim::network {
double Measured::operator[](std::string_view name) const {
  for (const auto& [known, value] : values) {
    if (known == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Scheduler::Config scheduler_config(const Scenario& scenario) {
  Scheduler::Config config;
  config.plan.chunk_bytes = static_cast<std::uint32_t>(scenario.chunk_bytes);
  config.reads.adaptive = scenario.adaptive;
  config.reads.reads = scenario.reads;
  config.reads.most_reads = scenario.most_reads;
  config.reads.queue_bytes = std::max(scenario.queue_bytes, scenario.chunk_bytes);
  config.reads.step_bytes = scenario.chunk_bytes;
  config.reads.least_bytes = std::max(scenario.least_bytes, scenario.chunk_bytes);
  config.reads.initial_bytes = 4 * scenario.chunk_bytes;
  return config;
}

Roles draw_roles(const Scenario& scenario, std::uint64_t seed) {
  const std::uint32_t nodes = scenario.fabric.topology.nodes();
  Roles roles;
  roles.sources.resize(nodes);
  roles.slowness.assign(nodes, 1);
  Random random = Random(seed).fork(2);
  std::vector<NodeId> order(nodes);
  std::iota(order.begin(), order.end(), 0u);
  shuffle(order, random);
  for (std::uint32_t i = 0; i + 1 < nodes; i += 2) {
    roles.sources[order[i]] = {order[i + 1]};
    roles.sources[order[i + 1]] = {order[i]};
  }
  Random other = Random(seed).fork(3);
  shuffle(order, other);
  std::uint32_t next = 0;
  for (const Scenario::Slow& slow : scenario.slow) {
    for (std::uint32_t i = 0; i < slow.nodes && next < nodes; ++i) {
      roles.slowness[order[next++]] = slow.factor;
    }
  }
  if (scenario.pattern != Pattern::incast) return roles;
  for (std::uint32_t i = 0; i < std::min(scenario.receivers, nodes); ++i) {
    std::vector<NodeId>& sources = roles.sources[order[i]];
    sources.clear();
    while (sources.size() < std::min(scenario.senders, nodes - 1)) {
      const auto source = static_cast<NodeId>(other.below(nodes));
      const bool known = std::find(sources.begin(), sources.end(), source) != sources.end();
      if (source != order[i] && !known) sources.push_back(source);
    }
  }
  return roles;
}

Measured run(const Scenario& scenario, std::uint64_t seed) {
  if (scenario.endpoints == EndpointsAre::core) return run_core(scenario, seed);
  const Roles roles = draw_roles(scenario, seed);
  const std::unique_ptr<Traffic> traffic = scenario.protocol == Protocol::push
                                               ? make_pushing(scenario, roles)
                                               : make_reading(scenario, roles);
  Network network({.fabric = scenario.fabric, .slowness = roles.slowness}, *traffic, seed);
  traffic->begin(network);

  Measured result;
  const double nodes = network.nodes();
  constexpr std::uint64_t window = 1'000;
  double best_window = 0;
  std::uint64_t at_start = 0;
  for (std::uint64_t cycle = 0; cycle < scenario.to_cycles && result.violation.empty();) {
    const std::uint64_t before = traffic->total_flits();
    if (cycle == scenario.from_cycles) {
      traffic->start();
      at_start = before;
    }
    std::uint64_t until = std::min((cycle / window + 1) * window, scenario.to_cycles);
    if (cycle < scenario.from_cycles) until = std::min(until, scenario.from_cycles);
    network.run_until(static_cast<Tick>(until) * ticks_a_cycle);
    if (until - cycle == window) {
      const std::uint64_t flits = traffic->total_flits() - before;
      best_window = std::max(best_window, static_cast<double>(flits) / window / nodes);
    }
    cycle = until;
    result.violation = network.violation();
  }
  const auto cycles = static_cast<double>(scenario.to_cycles - scenario.from_cycles);
  result.values = {
      {"throughput", static_cast<double>(traffic->total_flits() - at_start) / cycles / nodes},
      {"best_window", best_window},
      {"latency_cycles", traffic->mean_latency() / ticks_a_cycle},
      {"reads", traffic->mean_reads()}};
  result.events = network.events();
  result.trace_hash = network.trace_hash();
  return result;
}

}  // namespace weir::sim::network
