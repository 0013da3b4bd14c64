#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/sim/network/packet.h"
#include "tools/sim/network/scenario.h"
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
