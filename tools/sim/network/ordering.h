// Streams of packets that have to be delivered in order over a fabric that reorders: who puts them
// in order, the source or the target [ORD §IV].
//
// A model of the protocol's timing, not the protocol: reorder buffer and connections are counted as
// if there was room for all.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/sim/network/network.h"

namespace weir::sim::network {

// [ORD §IV.A, C]
enum class Ordering : std::uint8_t {
  unordered,
  at_source,    // one packet at a time: the next one when the last is acknowledged (slow mode)
  at_target,    // all at once, put in order by the target (fast mode)
  sync_source,  // all but the last at once, the last when those are acknowledged
  sync_target,  // all at once, the last held back by the target until the others are there
};

struct OrderingScenario {
  FabricConfig fabric;
  Ordering ordering = Ordering::at_target;
  std::uint32_t stream_packets = 10;
  std::uint32_t flits = 16;  // a packet
  std::uint32_t sources = 1;
  std::uint32_t targets = 32;  // in another group; drawn for each stream
  std::uint64_t streams = 0;   // of each source, one after the other; 0: until the end
  double load = 1;             // of a source's link
  bool bursts = false;         // a stream's packets back to back, then a pause; else at random
  std::uint64_t cycles = 20'000;
};

struct OrderingMeasured {
  double throughput = 0;      // flits a source and cycle, into the targets
  double stream_latency = 0;  // cycles from the first packet's start to the last one's delivery
  double out_of_order = 0;    // of packets: arrived before one they have to follow
  std::uint32_t reorder_peak = 0;      // packets held at one target
  double reorder_mean = 0;             // at an arrival
  std::uint32_t connections_peak = 0;  // streams of which a target knows at a time
  std::uint64_t events = 0;
  std::uint64_t trace_hash = 0;
  double cpu_s = 0;
  std::string violation;
};

OrderingMeasured run(const OrderingScenario& scenario, std::uint64_t seed);

// 1,056 nodes, links of 40 and 500 cycles [ORD §IV]; buffers that cover the long ones.
FabricConfig ordering_fabric();

}  // namespace weir::sim::network
