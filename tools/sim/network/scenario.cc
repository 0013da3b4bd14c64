#include "tools/sim/network/scenario.h"

#include <algorithm>
#include <numeric>

#include "tools/sim/network/traffic.h"
#include "tools/sim/network/whole_core.h"
#include "tools/sim/thread_time.h"

namespace weir::sim::network {
namespace {

void shuffle(std::vector<NodeId>& nodes, Random& random) {
  for (std::size_t i = nodes.size(); i-- > 1;) std::swap(nodes[i], nodes[random.below(i + 1)]);
}

double first_percentile(const Meter& meter, const Roles& roles, double cycles) {
  std::vector<std::uint64_t> flits;
  for (NodeId node = 0; node < roles.sources.size(); ++node) {
    if (roles.slowness[node] == 1 && !roles.sources[node].empty()) {
      flits.push_back(meter.flits(node));
    }
  }
  if (flits.empty()) return 0;
  const auto at = flits.begin() + static_cast<std::ptrdiff_t>(flits.size() / 100);
  std::nth_element(flits.begin(), at, flits.end());
  return static_cast<double>(*at) / cycles;
}

}  // namespace

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

Network::Config network_config(const Scenario& scenario, const Roles& roles) {
  Network::Config config{
      .fabric = scenario.fabric, .slowness = roles.slowness, .loss = scenario.loss, .outages = {}};
  for (const Scenario::Outage& outage : scenario.outages) {
    config.outages.push_back({.links = outage.links,
                              .from = static_cast<Tick>(outage.from_cycles) * ticks_a_cycle,
                              .to = static_cast<Tick>(outage.to_cycles) * ticks_a_cycle});
  }
  return config;
}

Measured run(const Scenario& scenario, std::uint64_t seed) {
  if (scenario.endpoints == EndpointsAre::core) return run_core(scenario, seed);
  const double begin = thread_cpu_seconds();
  const Roles roles = draw_roles(scenario, seed);
  const std::unique_ptr<Traffic> traffic = Traffic::make(scenario, roles, seed);
  Network network(network_config(scenario, roles), *traffic, seed);
  traffic->begin(network);

  Measured result;
  const double nodes = network.nodes();
  constexpr std::uint64_t window = 1'000;
  std::uint64_t before = 0;
  std::uint64_t window_begin = 0;
  std::uint64_t at_start = 0;
  for (std::uint64_t cycle = 0; cycle < scenario.to_cycles && result.violation.empty();) {
    if (cycle == scenario.from_cycles) {
      traffic->meter().start();
      at_start = traffic->meter().total();
    }
    std::uint64_t until = std::min((cycle / window + 1) * window, scenario.to_cycles);
    if (cycle < scenario.from_cycles) until = std::min(until, scenario.from_cycles);
    network.run_until(static_cast<Tick>(until) * ticks_a_cycle);
    const std::uint64_t total = traffic->meter().total();
    if (until - cycle == window) {
      result.best_window =
          std::max(result.best_window, static_cast<double>(total - before) / window / nodes);
    }
    if (until % window == 0) {
      result.windows.push_back(static_cast<double>(total - window_begin) / window / nodes);
      window_begin = total;
    }
    before = total;
    cycle = until;
    if (traffic->over()) break;
    result.violation = network.violation();
  }
  if (result.violation.empty() && !traffic->conserved()) {
    result.violation = "the read budget is not conserved at the end";
  }
  result.messages = traffic->messages();
  // A workload is over when it is.
  const double played = static_cast<double>(network.now()) / ticks_a_cycle;
  const double cycles = std::max(played - static_cast<double>(scenario.from_cycles), 1.0);
  result.throughput = static_cast<double>(traffic->meter().total() - at_start) / cycles / nodes;
  result.first_percentile = first_percentile(traffic->meter(), roles, cycles);
  result.latency_cycles = traffic->meter().mean_latency() / ticks_a_cycle;
  result.mean_reads = traffic->mean_reads();
  result.lost_packets = network.lost_packets();
  result.retried = traffic->retried();
  result.failed = traffic->failed();
  result.events = network.events();
  result.hops = network.hops();
  const auto packets = static_cast<double>(network.delivered_flits()) / packet_flits;
  result.detours = packets > 0 ? static_cast<double>(network.detours()) / packets : 0;
  result.trace_hash = network.trace_hash();
  result.cpu_s = thread_cpu_seconds() - begin;
  return result;
}

}  // namespace weir::sim::network
