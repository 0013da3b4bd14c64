// A small world: N processes on one fabric, what they do, and what goes wrong when. `run` plays it
// and lists every broken promise:
//
//   * every message exactly once, in order, unharmed; healthy peers are never given up
//   * it ends: traffic, then a clean close; no slot, buffer or credit is missing at the end
//   * no RNR NAK while nothing fails and the window covers the credits
//   * processes of a host never have more tokens out than there are, have those that their pool
//     says they have, and give all of them back
//   * nor more reads than a read budget that does not move, each of them with its tokens
//   * the wire loses and makes nothing
//   * with somebody who stands in for applications that compute, no message waits for them longer
//     than it takes to see that they do
//
// Single-threaded; a run is a function of the Plan.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/counters.h"
#include "tools/sim/application.h"
#include "tools/sim/fabric.h"

namespace weir::sim {

struct Fault {
  enum class Kind : std::uint8_t {
    kill_told,    // the process dies, its kernel closes its connections
    kill_silent,  // its host dies
    cut,          // nothing passes between `node` and `other` any more
    break_pair,   // a queue pair of `node` breaks
    lose_way,     // a queue pair of `node` finds that nobody answers; the session goes on
    outage,       // nothing passes between `node` and `other` for `lasts`; likewise
  };
  Kind kind;
  Time when;
  Node node = 0;
  Node other = 0;
  std::uint64_t step = 0;  // if not 0: after so many events, not at a time
  std::uint32_t pick = 0;  // break_pair, lose_way: which of the node's, modulo how many it has
  Duration lasts{};        // outage
};

// A process gets other limits; none above those of the plan.
struct LimitChange {
  Time when;
  Node node = 0;
  CoreLimits limits;
};

struct Plan {
  std::uint64_t seed = 0;
  Timing timing;
  Hazards hazards;
  // What carries messages; empty: Links.
  std::function<std::unique_ptr<Wire>(Fabric&)> wire;
  Engine::Config engine;        // `core.self` and the SRQ limit style are set by node
  std::vector<Script> scripts;  // one for each process
  std::vector<SrqLimitStyle> limit_styles;
  bool mixed_adapters = false;  // that start and answer 1 to `engine.core.max_rd_atomic` fetches
  std::uint32_t processes_per_host = 0;  // that share tokens and the read budget; 0: nobody does
  SharedAdapter::Config adapter;         // with contexts, one for so many processes:
  std::uint32_t processes_per_adapter = 0;
  bool stands_in = false;      // somebody for applications that compute
  wire::Wakes wakes = wire::Wakes::answers;  // what wakes who stands in
  bool connect_first = false;  // a message to each destination, before the traffic begins
  std::uint32_t rounds = 1;    // traffic, then close, then all over again
  std::vector<Fault> faults;
  std::vector<LimitChange> limit_changes;
  Duration deadline = seconds(120);       // of virtual time; a world that needs more is stuck
  std::uint64_t most_steps = 20'000'000;  // of events; the same
};

// Of processes with several rails (tests/contract/rails.h).
struct RailCounts {
  std::uint64_t frames_carried = 0;
  std::uint64_t parts = 0;        // over further rails
  std::uint64_t parts_again = 0;  // because a rail lost them
  std::uint64_t given_up = 0;     // peers on a rail, which others outlived
};

struct Outcome {
  std::vector<std::string> violations;
  std::uint64_t messages = 0;
  std::uint64_t rnr_naks = 0;
  std::uint64_t steps = 0;
  Counters total;  // of the processes, added up; of use for what counts up
  std::uint64_t slabs_dropped = 0;
  Engine::StoodIn stood_in;              // of the processes, added up
  std::uint64_t tokens_out_most = 0;     // of a host, at any look
  std::uint64_t reads_out_most = 0;      // of a host, at any look
  std::uint64_t receive_bytes_peak = 0;  // mean of the processes
  double window = 0;                     // receive buffers, in the end; the same
  std::vector<Time> served;              // when each process had all it ever gets
  Time begun{};                          // the last traffic
  Time last_served{};                    // the last of them
  Hazards hazards;                       // and how often they struck
  std::uint64_t kills = 0;
  std::uint64_t cuts = 0;
  std::uint64_t broken_pairs = 0;
  std::uint64_t outages = 0;
  Wire::Counts wire;
  RailCounts rails;  // of the processes, added up
  Time end{};
  std::uint64_t hash = 0;  // of all that the processes decided and heard

  bool ok() const { return violations.empty(); }
};

// With a `trace`, every step of the connections goes there.
Outcome run(const Plan& plan, std::function<void(const std::string&)> trace = nullptr);

}  // namespace weir::sim
