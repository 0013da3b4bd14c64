// A fat tree of two levels, or a single switch (a leaf without spines). A leaf's ports: p nodes,
// then one to each spine. The way up is where routing has a choice: the same spine for a pair of
// nodes (minimal), a random one (valiant), or the least loaded (the adaptive ones).
//
// Immutable once made.
#pragma once

#include "tools/sim/network/wiring.h"

namespace weir::sim::network {

class Tree final : public Wiring {
 public:
  explicit Tree(const FabricConfig& config);

  Hop route(Port in, Packet& packet, const Congestion& congestion, Random& random) const override;
  Hop shortest(Port in, const Packet& packet) const override;
  std::vector<Port> trunks() const override;

 private:
  std::uint32_t p_;
  std::uint32_t leaves_;
  std::uint32_t spines_;
  Routing routing_;
};

}  // namespace weir::sim::network
