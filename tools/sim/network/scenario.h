// One point: a fabric, what its nodes do, and when is measured.
//
// A flit stands for 256 bytes and a packet of 16 for an MTU of 4 KiB. [RDRP §4.1] says of its own
// numbers that only the ratios of buffers, latencies and packets are representative; so a real
// fabric is described by bytes and nanoseconds, and these are turned into flits and cycles.
//
// Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/sim/network/config.h"
#include "tools/sim/shared_adapter.h"

namespace weir::sim::network {

inline constexpr std::uint32_t flit_bytes = 256;
inline constexpr std::uint32_t packet_flits = 16;
inline constexpr std::uint32_t packet_bytes = packet_flits * flit_bytes;

constexpr std::uint32_t flits_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + flit_bytes - 1) / flit_bytes);
}

// Who wants what from whom. The first two are streams, always as much as the fabric carries; the
// others are messages that end (workload.h), sent as ob1 does (ob1.h).
enum class Pattern : std::uint8_t {
  pairs,   // random pairs that send to each other: the permutation of [RDRP §4.1]
  incast,  // pairs, but `receivers` random nodes are sent to by `senders` others each, too
  halo_2d,
  halo_3d,
  wavefront,
  all_to_all,
  trace,
};
constexpr bool ends(Pattern pattern) { return pattern > Pattern::incast; }

// A message of a trace.
struct TraceMessage {
  std::uint64_t cycle = 0;  // not before
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  std::uint64_t bytes = 0;
  std::uint32_t after = UINT32_MAX;  // not before that one is received: an earlier one's place
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

// What the read budget belongs to: the node, shared by its processes (flowctl/shared/token_pool.h);
// each process; each transfer.
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
  std::uint32_t processes = 1;  // of a node; its senders are dealt out to them, or ranks
  bool adaptive = false;
  std::uint32_t reads = 30;              // c, if not adaptive
  std::uint32_t most_reads = 128;        // if adaptive
  std::uint64_t queue_bytes = 64 << 10;  // q, if adaptive: about one virtual channel
  std::uint64_t least_bytes = 0;         // of the window, if adaptive; at least a chunk
  std::uint64_t chunk_bytes = packet_bytes;
  Becn becn;

  // Links that lose packets or are down for a while, and what adapters do about it (adapter.h).
  double loss = 0;  // of a packet, on each link
  struct Outage {
    std::uint32_t links = 1;
    std::uint64_t from_cycles = 0;
    std::uint64_t to_cycles = 0;
  };
  std::vector<Outage> outages;
  std::uint64_t timeout_cycles = 5'000;  // 100 us
  std::uint32_t retries = 7;
  bool lossy() const { return loss > 0 || !outages.empty(); }

  // Of processes that are the whole core.
  EndpointsAre endpoints = EndpointsAre::models;
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

// Of patterns that end. Latencies are from the start of the send to the end of the receive.
struct Messages {
  std::uint64_t all = 0;
  std::uint64_t received = 0;
  double finished_us = 0;  // when the last one was received; 0: not all were
  double median_us = 0;
  double p99_us = 0;
  double longest_us = 0;
};

// Of processes that are the whole core: means of the processes, and sums.
struct CoreMeasured {
  double window = 0;       // receive buffers, in the end
  double receive_kib = 0;  // memory of receive buffers, at its peak
  std::uint64_t rnr_naks = 0;
  std::uint64_t overcommitted = 0;  // credits for which there was no buffer
  // Of streams: what nodes that receive and are not slow got a cycle, in flits, until each had all.
  std::optional<double> others;
  struct Shared {
    std::uint64_t reads = 0;        // under way, of a node at most
    std::uint64_t read_waits = 0;   // times one waited for another process of the node
    std::uint64_t token_waits = 0;  // the same of requests
  };
  std::optional<Shared> shared;  // by processes of a node
  struct Tokens {
    std::uint64_t requests = 0;  // that took tokens
    std::uint64_t straight = 0;  // that went without: they were below the thresholds
  };
  std::optional<Tokens> tokens;  // with tokens
  struct Proxy {
    std::uint64_t served = 0;     // frames of other processes, or its own, that servers took
    std::uint64_t coalesced = 0;  // of them, those that shared a send with an earlier one
    std::uint64_t repeated = 0;   // that their process sent after all
  };
  std::optional<Proxy> proxy;  // with servers
  struct Contexts {
    std::uint64_t served = 0;  // requests and answers of all nodes' adapters
    std::uint64_t misses = 0;  // that waited for a context
  };
  std::optional<Contexts> contexts;  // with a context_cache
};

struct Measured {
  double throughput = 0;        // flits into memory, a node and cycle; 1 is the link
  double best_window = 0;       // of 1,000 cycles, from the start
  std::vector<double> windows;  // throughput of each 1,000 cycles, from the start
  double first_percentile = 0;  // of receivers that are not slow: the flits of a cycle
  double latency_cycles = 0;    // mean of packets, from adapter to memory
  double mean_reads = 0;        // of receivers, at the end: reads outstanding
  Messages messages;
  std::optional<CoreMeasured> core;
  std::uint64_t lost_packets = 0;
  std::uint64_t retried = 0;  // reads and writes begun again
  std::uint64_t failed = 0;   // of them, given up
  std::uint64_t events = 0;
  std::uint64_t hops = 0;
  double detours = 0;  // a delivered packet
  std::uint64_t trace_hash = 0;
  double cpu_s = 0;
  std::string violation;  // empty: every check held
};

// Plays it. The same scenario and seed give the same result, trace hash included.
Measured run(const Scenario& scenario, std::uint64_t seed);

// The nodes of a pattern, drawn from the seed.
struct Roles {
  std::vector<std::vector<std::uint32_t>> sources;  // by receiver
  std::vector<std::uint32_t> slowness;              // by node
};
Roles draw_roles(const Scenario& scenario, std::uint64_t seed);

}  // namespace weir::sim::network
