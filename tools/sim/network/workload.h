// What ranks send to each other, and what has to be there before they do: messages, and steps of
// ranks. A rank is in one step after the other; it enters a step when the one before has begun and
// all that the step waits for is there, posts the step's receives, and starts its sends.
//
//   message ─ sent ─────▶ a step of its source       (the send buffer is free)
//           ─ received ─▶ a step of its target
//
// Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/sim/network/packet.h"
#include "tools/sim/network/scenario.h"

namespace weir::sim::network {

struct Message {
  NodeId source = 0;  // nodes, or their processes: make_workload
  NodeId target = 0;
  std::uint64_t bytes = 0;
  bool posted = false;                     // its receive; else a step of the target does that
  std::vector<std::uint32_t> on_sent;      // steps that wait for it
  std::vector<std::uint32_t> on_received;  // the same
};

struct Step {
  NodeId node = 0;
  std::uint32_t waits = 0;        // for so many messages, and the step before
  std::uint32_t next = none;      // of the same rank
  std::uint64_t not_before = 0;   // cycle
  std::uint64_t work_cycles = 0;  // what the rank computes before it
  std::vector<std::uint32_t> receives;
  std::vector<std::uint32_t> sends;
};

struct Workload {
  std::vector<Message> messages;
  std::vector<Step> steps;
};

// That of the scenario's pattern. Ranks are on nodes at random, by the seed, and where a node has
// several processes, so many in a row; process p of node n is called n * processes + p. Those of a
// trace are nodes.
//
//   halo_2d, halo_3d   `rounds` times: with each of 4 or 6 neighbours in a torus as near to a
//                      square or cube as the nodes allow
//   wavefront          `rounds` sweeps over a grid: from west and north, then to east and south
//   all_to_all         `rounds` stages: in each everybody sends to one and receives from one
//   trace              `scenario.trace`
Workload make_workload(const Scenario& scenario, std::uint64_t seed);

}  // namespace weir::sim::network
