// Small worlds of processes that have several rails, drawn from a seed: messages, large gets and
// puts over all of them, and rails that go black, come back, or are lost for ever. One rail of each
// world is never away for longer than a peer may be silent; so nobody may lose anything.
//
//   * every message exactly once, unharmed, and those that stayed with a rail in its order
//   * gets bring the memory's bytes; what was put arrives before its put is over, and stays
//   * it ends; then both ends of each rail that is not lost agree on what it is
//   * no slot, buffer, credit or part is missing at the end
//
// Single-threaded; a run is a function of the plan, the plan one of the seed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/sim/world.h"

namespace weir::sim {

struct RailFault {
  enum class Kind : std::uint8_t {
    break_pair,  // a queue pair of `process` on `rail` finds that nobody answers
    black,       // nothing passes on `rail` for `lasts`, between all or `process` and `other`
    gone,        // the same for ever
  };
  Kind kind = Kind::break_pair;
  Time when;
  std::size_t rail = 0;
  bool all = false;
  bool told = false;  // the processes hear that their ports are down
  Node process = 0;
  Node other = 0;
  Duration lasts{};
  std::uint32_t pick = 0;
};

struct RailPlan {
  Plan base;  // of one rail: its processes, adapters, timing and hazards
  std::size_t rails = 1;
  bool spread = false;            // small messages, too
  std::uint8_t fenced = 0;        // rails with another adapter than the first one
  std::uint32_t operations = 0;   // gets, puts and atomics, to each other process
  std::uint32_t at_a_time = 1;    // at most
  bool atomics = false;           // among them; they are not in doubt
  std::uint32_t largest = 0;      // bytes of one
  std::uint32_t trains_permille = 0;  // messages longer than a frame, if they may go
  std::uint32_t halts_permille = 0;   // turns at which a process stops or lets trains
  Duration pace{};                // rests at most between its sends
  std::vector<RailFault> faults;  // in the order of their times
};

RailPlan rail_plan(std::uint64_t seed);
std::string describe(const RailPlan& plan);
Outcome run(const RailPlan& plan, std::function<void(const std::string&)> trace = nullptr);

}  // namespace weir::sim
