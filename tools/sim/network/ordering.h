// Streams of packets that have to be delivered in order over a fabric that reorders: who puts them
// in order, the source or the target [ORD §III, IV].
//
// The target's order is transport/lane/reorder_window.h, what a source may have outstanding is
// transport/lane/send_window.h. Around them is a model of the paper's protocol: its packets, a
// target's connections, fast and slow mode. Nothing is lost, so there are no timeouts; and a target
// that has no connection for a stream knows nevertheless which packet comes next, as it would from
// the SYN of one in slow mode.
//
// Plain values.
#pragma once

#include <cstdint>

#include "tools/sim/network/scenario.h"

namespace weir::sim::network {

// [ORD §IV.A, C]
enum class Ordering : std::uint8_t {
  unordered,
  at_source,    // one packet at a time: the next one when the last is acknowledged (slow mode)
  at_target,    // all at once, put in order by the target (fast mode)
  sync_source,  // all but the last at once, the last when those are acknowledged
  sync_target,  // all at once, the last held back by the target until the others are there
};

// 1,056 nodes, links of 40 and 500 cycles [ORD §IV]; buffers that cover the long ones. What is on
// such a link has credits and looks like a queue, so a packet leaves its shortest path for 200
// flits, not for 30.
FabricConfig ordering_fabric();

struct OrderingScenario {
  FabricConfig fabric = ordering_fabric();
  Ordering ordering = Ordering::at_target;
  std::uint32_t stream_packets = 10;  // no more than 256
  std::uint32_t flits = 16;           // a packet
  std::uint32_t sources = 1;          // in one group
  std::uint32_t targets = 32;         // in another; of one or two, a source keeps to its own
  double load = 1;                    // of a source's link
  bool bursts = false;                // a stream's packets back to back, then a pause
  bool one_by_one = false;            // a source's next stream when its last one is acknowledged
  std::uint32_t places = 512;         // R: half of them may be outstanding
  std::uint32_t buffer = 0;           // packets that a target holds of all streams; 0: any number
  std::uint32_t connections = 0;      // of a target; 0: any number
  std::uint64_t from_cycles = 5'000;
  std::uint64_t to_cycles = 50'000;
};

Measured run(const OrderingScenario& scenario, std::uint64_t seed);

}  // namespace weir::sim::network
