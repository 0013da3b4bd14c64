#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/sim/network/packet.h"
#include "tools/sim/network/scenario.h"
#include "tools/sim/random.h"

namespace weir::sim::network {
namespace {

// The largest number up to `most` that divides n.
std::uint32_t divisor(std::uint32_t n, double most) {
  auto d = static_cast<std::uint32_t>(most + 1e-9);
  while (d > 1 && n % d != 0) --d;
  return std::max(d, 1u);
}

// send(rank, to) for each neighbour in the torus.
template <typename Send>
void halo(std::uint32_t ranks, std::uint32_t dimensions, Send&& send) {
  const std::uint32_t nz = dimensions == 3 ? divisor(ranks, std::cbrt(ranks)) : 1;
  const std::uint32_t ny = divisor(ranks / nz, std::sqrt(ranks / nz));
  const std::uint32_t nx = ranks / nz / ny;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint32_t x = rank % nx;
    const std::uint32_t y = rank / nx % ny;
    const std::uint32_t z = rank / nx / ny;
    const auto at = [&](std::uint32_t to_x, std::uint32_t to_y, std::uint32_t to_z) {
      send(rank, to_x % nx + nx * (to_y % ny + ny * (to_z % nz)));
    };
    at(x + 1, y, z);
    at(x + nx - 1, y, z);
    at(x, y + 1, z);
    at(x, y + ny - 1, z);
    if (dimensions < 3) continue;
    at(x, y, z + 1);
    at(x, y, z + nz - 1);
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
    case Pattern::halo_2d: halo(ranks, 2, every_round); break;
    case Pattern::halo_3d: halo(ranks, 3, every_round); break;
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
    case Pattern::sparse: {
      // All ranks in a circle, in six orders: everybody sends to the next.
      std::vector<std::uint32_t> circle(ranks);
      std::iota(circle.begin(), circle.end(), 0u);
      Random other = Random(seed).fork(5);
      for (int partner = 0; partner < 6; ++partner) {
        shuffle(circle, other);
        for (std::uint32_t i = 0; i < ranks; ++i) every_round(circle[i], circle[(i + 1) % ranks]);
      }
      break;
    }
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
