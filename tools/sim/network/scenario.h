// One point: a fabric, what its nodes do, and when is measured.
//
// A flit stands for 256 bytes and a packet of 16 for an MTU of 4 KiB. [RDRP §4.1] says of its own
// numbers that only the ratios of buffers, latencies and packets are representative; so a real
// fabric is described by bytes and nanoseconds, and these are turned into flits and cycles.
//
// Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/scheduler.h"
#include "tools/sim/network/config.h"
#include "tools/sim/shared_adapter.h"
#include "tools/sim/steps.h"

namespace weir::sim::network {

inline constexpr std::uint32_t flit_bytes = 256;
inline constexpr std::uint32_t packet_flits = 16;
inline constexpr std::uint32_t packet_bytes = packet_flits * flit_bytes;

constexpr std::uint32_t flits_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + flit_bytes - 1) / flit_bytes);
}

// Who wants what from whom. The first two are streams, always as much as the fabric carries; the
// others are messages of ranks, that end (make_workload).
enum class Pattern : std::uint8_t {
  pairs,   // random pairs that send to each other: the permutation of [RDRP §4.1]
  incast,  // pairs, but `receivers` random nodes are sent to by `senders` others each, too
  halo_2d,
  halo_3d,
  wavefront,
  all_to_all,
  sparse,
  trace,
};
constexpr bool ends(Pattern pattern) { return pattern > Pattern::incast; }

inline constexpr MessageId no_message = UINT32_MAX;

// A message of a trace.
struct TraceMessage {
  std::uint64_t cycle = 0;  // not before
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  std::uint64_t bytes = 0;
  MessageId after = no_message;  // not before that one is received: an earlier one's place
};

// Who decides when data is sent.
enum class Protocol : std::uint8_t {
  push,   // the sender, at once: one RDMA operation for a large message
  reads,  // the receiver, by rendezvous/scheduler.h: [RDRP §3.2]
};

// What hangs on the fabric.
enum class EndpointsAre : std::uint8_t {
  models,  // of adapters, with the receivers' side that ships: thousands of nodes
  core,    // all of transport/core over adapters with RC queue pairs: whole_core.h
};

// What the read budget belongs to: the node; with all of the core, each of its processes, which
// share a node's by flowctl/shared/token_pool.h; each transfer.
enum class BudgetOf : std::uint8_t { node, process, transfer };

// Throttling by BECN [RDRP §4.1]; the marking is the fabric's.
struct Becn {
  bool on = false;
  std::uint32_t increment = 8;     // a packet with BECN
  std::uint32_t decrement = 1;     // one without
  std::uint32_t most = 20;         // then nothing is sent
  std::uint32_t decay_cycles = 4;  // one less, in so many
};

struct Scenario {
  FabricConfig fabric;
  double cycle_ns = 20;  // 256 B at 102.4 Gbit/s

  Pattern pattern = Pattern::pairs;
  std::uint32_t receivers = 0;  // of incast
  std::uint32_t senders = 16;

  // Of patterns that end.
  std::uint32_t rounds = 4;
  std::uint64_t message_bytes = 256 << 10;
  std::uint64_t eager_bytes = 4 << 10;  // messages up to that need no rendezvous
  std::uint64_t work_cycles = 0;        // what a rank computes between its steps
  std::vector<TraceMessage> trace;

  // How many nodes take a flit in only every so many cycles.
  struct Slow {
    std::uint32_t nodes = 0;
    std::uint32_t factor = 8;
  };
  std::vector<Slow> slow;  // with incast, the receivers are the first of them

  Protocol protocol = Protocol::push;
  BudgetOf budget_of = BudgetOf::node;
  bool adaptive = false;
  std::uint32_t reads = 30;              // c, if not adaptive
  std::uint32_t most_reads = 128;        // if adaptive
  std::uint64_t queue_bytes = 64 << 10;  // q, if adaptive: about one virtual channel
  std::uint64_t least_bytes = 0;         // of the window, if adaptive; at least a chunk
  std::uint64_t chunk_bytes = packet_bytes;
  Becn becn;

  // Of processes that are the whole core, whose adapters send again what is not answered.
  std::uint64_t timeout_cycles = 5'000;  // 100 us

  // Of processes that are the whole core.
  EndpointsAre endpoints = EndpointsAre::models;
  std::uint32_t processes = 1;       // of a node; its senders are dealt out to them, or ranks
  std::uint32_t compute_permille = 0;  // turns of a process, of a us, after which it computes
  std::int64_t compute_ns = 0;         // at most
  bool steps_wait = false;           // of patterns that end: for what they need, or for nothing
  std::int64_t match_ns = 0;         // what matching a message takes a rank, where they wait
  std::uint32_t window_initial = 8;  // receive buffers of a process, at first
  std::uint32_t window_max = 0;      // W_max; 0: as window_max auto of the transport
  std::uint32_t window_unasked = 0;  // beyond, W grows for peers without credits only; 0: by W_max
  std::uint32_t max_rd_atomic = 16;  // reads of a queue pair under way
  std::uint32_t tokens = 0;          // that a node's requests take; 0: they take none
  bool thresholds = false;           // only requests beyond these tables take them (Algorithm 1):
  std::string cct, nrct, crct;       // as the transport's keys of these names (config/table.h)
  std::uint32_t proxy_servers = 0;   // of a node: processes that send for the others at a time
  std::uint32_t context_cache = 0;   // contexts that a node's adapter holds; 0: all there are
  ContextOf context_of = ContextOf::queue_pair;
  std::int64_t context_miss_ns = 600;  // what one costs that is not held
  bool rxe_limit = false;              // the limit event as Soft-RoCE has it (tools/sim/fabric.h)

  std::uint64_t from_cycles = 6'000;
  std::uint64_t to_cycles = 12'000;
};

// What a run gave, by name: "throughput", "latency_cycles". The names are columns of files.
using Values = std::vector<std::pair<std::string, double>>;

struct Measured {
  Values values;
  std::vector<double> windows;  // throughput of each 1,000 cycles, from the start; of models
  std::uint64_t events = 0;
  std::uint64_t trace_hash = 0;
  double cpu_s = 0;
  double peak_mib = 0;    // of the whole process by the end of this, what runs beside included
  std::string violation;  // empty: every check held

  // NaN if there is no such value.
  double operator[](std::string_view name) const;
};

// Of a run's messages, in microseconds: median, 99th percentile, longest.
void add_latencies(std::vector<double> latencies, Values& values);

// Plays it. The same scenario and seed give the same result, trace hash included.
Measured run(const Scenario& scenario, std::uint64_t seed);

// The nodes of a pattern, drawn from the seed.
struct Roles {
  std::vector<std::vector<std::uint32_t>> sources;  // by receiver
  std::vector<std::uint32_t> slowness;              // by node
};
Roles draw_roles(const Scenario& scenario, std::uint64_t seed);

// What the ranks of a pattern do. They are on nodes at random, by the seed, and where a node has
// several processes, so many in a row; process p of node n is called n * processes + p. Those of a
// trace are nodes.
//
//   halo_2d, halo_3d   `rounds` times: with each of 4 or 6 neighbours in a torus as near to a
//                      square or cube as the nodes allow
//   wavefront          `rounds` sweeps over a grid: from west and north, then to east and south
//   all_to_all         `rounds` stages: in each everybody sends to one and receives from one
//   sparse             `rounds` times: with 6 others, drawn once
//   trace              `scenario.trace`
Workload make_workload(const Scenario& scenario, std::uint64_t seed);

// How a receiver's Scheduler is set.
Scheduler::Config scheduler_config(const Scenario& scenario);

}  // namespace weir::sim::network
