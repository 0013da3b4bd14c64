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
#include "tools/sim/network/wiring.h"

namespace weir::sim::network {

inline constexpr std::uint32_t flit_bytes = 256;
inline constexpr std::uint32_t packet_flits = 16;
inline constexpr std::uint32_t packet_bytes = packet_flits * flit_bytes;

constexpr std::uint32_t flits_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + flit_bytes - 1) / flit_bytes);
}

// Who wants what from whom. The first two are streams, always as much as the fabric carries, or
// with all of the core `rounds` messages each; the others are messages of ranks (count_messages).
enum class Pattern : std::uint8_t {
  pairs,   // random pairs that send to each other: the permutation of [RDRP §4.1]
  incast,  // pairs, but `receivers` random nodes are sent to by `senders` others each, too
  halo_2d,
  all_to_all,
  opposite,
};
constexpr bool has_ranks(Pattern pattern) { return pattern > Pattern::incast; }

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

// What the read budget belongs to with all of the core: the node, whose processes share it by
// flowctl/shared/token_pool.h; each of its processes; each connection.
enum class BudgetOf : std::uint8_t { node, process, connection };

// What bounds the requests in an adapter that the processes of a node share [TOK]: nothing; as many
// tokens as it has contexts; each process's share of the rate that it bears.
enum class Limit : std::uint8_t { none, tokens, rate };

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

  // How many nodes take a flit in only every so many cycles.
  struct Slow {
    std::uint32_t nodes = 0;
    std::uint32_t factor = 8;
  };
  std::vector<Slow> slow;  // with incast, the receivers are the first of them

  Protocol protocol = Protocol::push;
  bool adaptive = false;
  std::uint32_t reads = 30;              // c, if not adaptive
  std::uint32_t most_reads = 128;        // if adaptive
  std::uint64_t queue_bytes = 64 << 10;  // q, if adaptive: about one virtual channel
  std::uint64_t least_bytes = 0;         // of the window, if adaptive; at least a chunk
  std::uint64_t chunk_bytes = packet_bytes;
  Becn becn;
  std::uint64_t from_cycles = 6'000;  // of models: when is measured
  std::uint64_t to_cycles = 12'000;

  EndpointsAre endpoints = EndpointsAre::models;
  // Of processes that are the whole core.
  std::uint32_t processes = 1;  // of a node; its senders are dealt out to them, or ranks
  std::uint32_t rounds = 4;
  std::uint64_t message_bytes = 256 << 10;
  std::uint64_t eager_bytes = 4 << 10;  // messages up to that need no rendezvous
  BudgetOf budget_of = BudgetOf::node;
  std::uint32_t window_initial = 8;  // receive buffers of a process, at first
  std::uint32_t window_max = 0;      // W_max; 0: as window_max auto of the transport
  std::int64_t rnr_ns = 640'000;     // RNR timer; 0: it learns
  std::uint32_t contexts = 0;        // of the adapter of a node (shared_adapter.h); 0: one each
  std::uint32_t outstanding = 64;    // messages of a process, with such an adapter
  Limit limit = Limit::none;
};

// What a run gave, by name: "throughput", "latency_cycles". The names are columns of files.
using Values = std::vector<std::pair<std::string, double>>;

struct Measured {
  Values values;
  std::uint64_t events = 0;
  std::uint64_t trace_hash = 0;
  double cpu_s = 0;
  std::string violation;  // empty: every check held

  // NaN if there is no such value.
  double operator[](std::string_view name) const;
};

// Plays it. The same scenario and seed give the same result, trace hash included.
Measured run(const Scenario& scenario, std::uint64_t seed);

// The nodes of a pattern, drawn from the seed.
struct Roles {
  std::vector<std::vector<std::uint32_t>> sources;  // by receiver
  std::vector<std::uint32_t> slowness;              // by node
};
Roles draw_roles(const Scenario& scenario, std::uint64_t seed);

// How many messages each process sends to each: process p of node n is n * processes + p. Ranks are
// on nodes at random, by the seed, and where a node has several processes, so many in a row. What
// stays on a node is not counted: shared memory carries it.
//
//   pairs, incast      `rounds` from each source, dealt out to the processes
//   halo_2d            `rounds` with each of 4 neighbours in a torus as near to a square as may be
//   all_to_all         `rounds` stages: in each everybody sends to one and receives from one
//   opposite           `rounds` to the rank that is half of all away
std::vector<std::vector<std::uint32_t>> count_messages(const Scenario& scenario, const Roles& roles,
                                                       std::uint64_t seed);

// How a receiver's Scheduler is set.
Scheduler::Config scheduler_config(const Scenario& scenario);

}  // namespace weir::sim::network
