// What a fabric is made of. Times are cycles: a link moves one flit a cycle. The defaults are those
// of [RDRP §4.1]; where the paper is silent, what reproduces its shapes (see README.md).
//
// Plain values.
#pragma once

#include <cstdint>

namespace weir::sim::network {

enum class Shape : std::uint8_t { dragonfly, fat_tree, single_switch };

// Where a packet goes when there is a choice.
//   minimal      the shortest path, always
//   valiant      by way of a random group (fat tree: over a random spine), always
//   progressive  one of the two: a packet on its shortest path may leave it at any router of its
//                first group (PAR) [RDRP §4.1]
// In a fat tree there is a choice at the first switch only, and ways are equally long: progressive
// takes the spine with the shortest queue.
enum class Routing : std::uint8_t { minimal, valiant, progressive };

struct Topology {
  Shape shape = Shape::dragonfly;
  // Dragonfly: p nodes and h global links a router, a routers a group, a * h + 1 groups.
  std::uint32_t p = 6;
  std::uint32_t a = 12;
  std::uint32_t h = 6;
  // Fat tree: `leaves` switches with `p` nodes each, all connected to each of `spines`.
  std::uint32_t leaves = 16;
  std::uint32_t spines = 16;
  // Single switch.
  std::uint32_t ports = 16;

  std::uint32_t groups() const { return a * h + 1; }
  std::uint32_t nodes() const {
    switch (shape) {
      case Shape::dragonfly: return p * a * groups();
      case Shape::fat_tree: return p * leaves;
      case Shape::single_switch: return ports;
    }
    return 0;
  }
};

struct FabricConfig {
  Topology topology;
  Routing routing = Routing::progressive;
  double bias = 1;               // leave the shortest path when q_min > bias * q_other + threshold
  std::int32_t threshold = 30;   // flits
  std::uint32_t vc_flits = 256;  // a virtual channel's buffer
  double crossbar = 2.4;         // its speed-up over a link
  std::uint32_t local_cycles = 2;
  std::uint32_t global_cycles = 10;
  std::uint32_t node_cycles = 1;  // between a node and its router
  // FECN: packets that enter a queue fuller than half are marked, with a probability that grows
  // from 0 to `marking` when it is full. [RDRP §4.1] 0: never.
  double marking = 0;
};

}  // namespace weir::sim::network
