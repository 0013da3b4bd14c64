#include "tools/sim/network/scenario.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tools/sim/random.h"

namespace weir::sim::network {
namespace {

// send(rank, to) for each neighbour in the torus.
template <typename Send>
void halo(std::uint32_t ranks, Send&& send) {
  auto ny = static_cast<std::uint32_t>(std::sqrt(ranks));
  while (ranks % ny != 0) --ny;
  const std::uint32_t nx = ranks / ny;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint32_t x = rank % nx;
    const std::uint32_t y = rank / nx;
    send(rank, (x + 1) % nx + nx * y);
    send(rank, (x + nx - 1) % nx + nx * y);
    send(rank, x + nx * ((y + 1) % ny));
    send(rank, x + nx * ((y + ny - 1) % ny));
  }
}

}  // namespace

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
  config.reads.chunk_bytes = config.plan.chunk_bytes;
  config.reads.least_bytes = scenario.least_bytes;
  config.reads.initial_bytes =
      std::min(4 * scenario.chunk_bytes, std::max<std::uint64_t>(scenario.chunk_bytes, 128 << 10));
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

std::vector<std::vector<std::uint32_t>> count_messages(const Scenario& scenario, const Roles& roles,
                                                       std::uint64_t seed) {
  const std::uint32_t nodes = scenario.fabric.topology.nodes();
  const std::uint32_t each = scenario.processes;
  const std::uint32_t ranks = nodes * each;
  std::vector<std::vector<std::uint32_t>> counts(ranks, std::vector<std::uint32_t>(ranks));
  std::vector<NodeId> order(nodes);
  std::iota(order.begin(), order.end(), 0u);
  Random random = Random(seed).fork(4);
  shuffle(order, random);
  const auto send = [&](std::uint32_t from, std::uint32_t to, std::uint32_t count) {
    if (from / each == to / each) return;
    counts[order[from / each] * each + from % each][order[to / each] * each + to % each] += count;
  };
  const auto every_round = [&](std::uint32_t from, std::uint32_t to) {
    send(from, to, scenario.rounds);
  };
  switch (scenario.pattern) {
    case Pattern::halo_2d: halo(ranks, every_round); break;
    case Pattern::opposite:
      for (std::uint32_t i = 0; i < ranks; ++i) every_round(i, (i + ranks / 2) % ranks);
      break;
    case Pattern::all_to_all:
      for (std::uint32_t stage = 0; stage < scenario.rounds; ++stage) {
        // Fewer stages than ranks: spread over all distances.
        const std::uint64_t distance =
            scenario.rounds >= ranks ? stage + 1
                                     : (stage + 1) * std::uint64_t{ranks} / (scenario.rounds + 1);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          const std::uint64_t to = (rank + std::max<std::uint64_t>(distance, 1)) % ranks;
          send(rank, static_cast<std::uint32_t>(to), 1);
        }
      }
      break;
    case Pattern::pairs:
    case Pattern::incast:
      for (NodeId target = 0; target < nodes; ++target) {
        std::uint32_t process = 0;
        for (const NodeId source : roles.sources[target]) {
          counts[source * each + process][target * each + process] = scenario.rounds;
          process = (process + 1) % each;
        }
      }
      break;
  }
  return counts;
}

}  // namespace weir::sim::network
