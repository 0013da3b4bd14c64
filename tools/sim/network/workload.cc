#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "tools/sim/network/packet.h"
#include "tools/sim/network/scenario.h"
#include "tools/sim/random.h"

namespace weir::sim::network {
namespace {

// Ranks that go through the same number of steps.
class Grid {
 public:
  Grid(const Scenario& scenario, std::uint32_t steps, std::uint64_t seed)
      : bytes_(scenario.message_bytes), per_rank_(steps + 1) {
    const std::uint32_t nodes = scenario.fabric.topology.nodes();
    std::vector<NodeId> order(nodes);
    std::iota(order.begin(), order.end(), 0u);
    Random random = Random(seed).fork(4);
    shuffle(order, random);
    const std::uint32_t each = workload_.processes = scenario.processes;
    place_of_.resize(std::size_t{nodes} * each);
    for (std::uint32_t rank = 0; rank < place_of_.size(); ++rank) {
      place_of_[rank] = order[rank / each] * each + rank % each;
    }
    workload_.steps.resize(place_of_.size() * per_rank_);
    for (std::uint32_t id = 0; id < workload_.steps.size(); ++id) {
      Step& step = workload_.steps[id];
      step.node = place_of_[id / per_rank_];
      if (id % per_rank_ == 0) continue;
      step.waits = 1;
      step.work_cycles = scenario.work_cycles;
      workload_.steps[id - 1].next = id;
    }
  }

  std::uint32_t count() const { return static_cast<std::uint32_t>(place_of_.size()); }

  // Sent in one step, received in another; both are over when that is done.
  void message(std::uint32_t from, std::uint32_t from_step, std::uint32_t to,
               std::uint32_t to_step) {
    if (from == to) return;
    const auto id = static_cast<std::uint32_t>(workload_.messages.size());
    const std::uint32_t sends = from * per_rank_ + from_step;
    const std::uint32_t receives = to * per_rank_ + to_step;
    workload_.messages.push_back({.source = place_of_[from],
                                  .target = place_of_[to],
                                  .bytes = bytes_,
                                  .on_sent = {sends + 1},
                                  .on_received = {receives + 1}});
    workload_.steps[sends].sends.push_back(id);
    workload_.steps[receives].receives.push_back(id);
    ++workload_.steps[sends + 1].waits;
    ++workload_.steps[receives + 1].waits;
  }

  Workload take() { return std::move(workload_); }

 private:
  std::uint64_t bytes_;
  std::uint32_t per_rank_;
  std::vector<NodeId> place_of_;  // by rank
  Workload workload_;
};

// The largest number up to `most` that divides n.
std::uint32_t divisor(std::uint32_t n, double most) {
  auto d = static_cast<std::uint32_t>(most + 1e-9);
  while (d > 1 && n % d != 0) --d;
  return std::max(d, 1u);
}

std::array<std::uint32_t, 3> grid(std::uint32_t nodes, std::uint32_t dimensions) {
  const std::uint32_t z = dimensions == 3 ? divisor(nodes, std::cbrt(nodes)) : 1;
  const std::uint32_t y = divisor(nodes / z, std::sqrt(nodes / z));
  return {nodes / z / y, y, z};
}

Workload halo(const Scenario& scenario, std::uint32_t dimensions, std::uint64_t seed) {
  Grid ranks(scenario, scenario.rounds, seed);
  const auto [nx, ny, nz] = grid(ranks.count(), dimensions);
  for (std::uint32_t round = 0; round < scenario.rounds; ++round) {
    for (std::uint32_t rank = 0; rank < ranks.count(); ++rank) {
      const std::uint32_t x = rank % nx;
      const std::uint32_t y = rank / nx % ny;
      const std::uint32_t z = rank / nx / ny;
      const auto send = [&](std::uint32_t to_x, std::uint32_t to_y, std::uint32_t to_z) {
        ranks.message(rank, round, to_x % nx + nx * (to_y % ny + ny * (to_z % nz)), round);
      };
      send(x + 1, y, z);
      send(x + nx - 1, y, z);
      send(x, y + 1, z);
      send(x, y + ny - 1, z);
      if (dimensions < 3) continue;
      send(x, y, z + 1);
      send(x, y, z + nz - 1);
    }
  }
  return ranks.take();
}

// Two steps a sweep: what comes in is received in the first, what goes out is sent in the second.
Workload wavefront(const Scenario& scenario, std::uint64_t seed) {
  Grid ranks(scenario, 2 * scenario.rounds, seed);
  const std::uint32_t nx = grid(ranks.count(), 2)[0];
  for (std::uint32_t sweep = 0; sweep < scenario.rounds; ++sweep) {
    for (std::uint32_t rank = 0; rank < ranks.count(); ++rank) {
      const auto send = [&](std::uint32_t to) {
        ranks.message(rank, 2 * sweep + 1, to, 2 * sweep);
      };
      if (rank % nx + 1 < nx) send(rank + 1);
      if (rank + nx < ranks.count()) send(rank + nx);
    }
  }
  return ranks.take();
}

Workload all_to_all(const Scenario& scenario, std::uint64_t seed) {
  Grid ranks(scenario, scenario.rounds, seed);
  const std::uint32_t n = ranks.count();
  for (std::uint32_t stage = 0; stage < scenario.rounds; ++stage) {
    // Fewer stages than ranks: spread over all distances.
    const std::uint32_t distance =
        scenario.rounds >= n
            ? stage + 1
            : static_cast<std::uint32_t>((stage + 1) * std::uint64_t{n} / (scenario.rounds + 1));
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      ranks.message(rank, stage, (rank + std::max(distance, 1u)) % n, stage);
    }
  }
  return ranks.take();
}

// Each of so many times all ranks in a circle, in an order of its own: everybody sends to the next.
Workload sparse(const Scenario& scenario, std::uint64_t seed) {
  constexpr std::uint32_t partners = 6;
  Grid ranks(scenario, scenario.rounds, seed);
  std::vector<std::uint32_t> circle(ranks.count());
  std::iota(circle.begin(), circle.end(), 0u);
  Random random = Random(seed).fork(5);
  for (std::uint32_t partner = 0; partner < partners; ++partner) {
    shuffle(circle, random);
    for (std::uint32_t round = 0; round < scenario.rounds; ++round) {
      for (std::uint32_t i = 0; i < circle.size(); ++i) {
        ranks.message(circle[i], round, circle[(i + 1) % circle.size()], round);
      }
    }
  }
  return ranks.take();
}

// A step for each message, that only sends it; its receive is posted from the start.
Workload trace(const Scenario& scenario) {
  Workload workload;
  for (std::uint32_t id = 0; id < scenario.trace.size(); ++id) {
    const TraceMessage& line = scenario.trace[id];
    workload.messages.push_back({.source = line.source,
                                 .target = line.target,
                                 .bytes = line.bytes,
                                 .posted = true,
                                 .on_sent = {},
                                 .on_received = {}});
    Step step{.node = line.source, .not_before = line.cycle, .receives = {}, .sends = {id}};
    if (line.after != no_message) {
      step.waits = 1;
      workload.messages[line.after].on_received.push_back(id);
    }
    workload.steps.push_back(std::move(step));
  }
  return workload;
}

}  // namespace

Workload make_workload(const Scenario& scenario, std::uint64_t seed) {
  switch (scenario.pattern) {
    case Pattern::halo_2d: return halo(scenario, 2, seed);
    case Pattern::halo_3d: return halo(scenario, 3, seed);
    case Pattern::wavefront: return wavefront(scenario, seed);
    case Pattern::all_to_all: return all_to_all(scenario, seed);
    case Pattern::sparse: return sparse(scenario, seed);
    case Pattern::trace: return trace(scenario);
    case Pattern::pairs:
    case Pattern::incast: break;
  }
  return {};
}

}  // namespace weir::sim::network
