// A dragonfly: groups of routers that are all connected to each other, and one link between any two
// groups [RDRP §4.1]. A router's ports: p nodes, a - 1 local, h global.
//
// Virtual channels follow the order of hops, so no packet waits for one behind it:
//
//   channel 0            1                     2                     3
//   local, global  ──▶   local, global  ──▶    local, global  ──▶    local, the node
//   on the shortest      in the first group,   in the group          in the last group
//   path so far          off the shortest      it goes by
//
// Immutable once made.
#pragma once

#include "tools/sim/network/wiring.h"

namespace weir::sim::network {

class Dragonfly final : public Wiring {
 public:
  explicit Dragonfly(const FabricConfig& config);

  Hop route(Port in, Packet& packet, const Congestion& congestion, Random& random) const override;
  Hop shortest(Port in, const Packet& packet) const override;
  std::vector<Port> trunks() const override;

 private:
  // The port of router `from` towards group `to` from group `group`.
  Port towards(std::uint32_t group, std::uint32_t from, std::uint32_t to) const;
  // The one link between two groups is up.
  bool linked(std::uint32_t group, std::uint32_t other, const Congestion& congestion) const;
  bool is_way(std::uint32_t group, std::uint32_t via, std::uint32_t last,
              const Congestion& congestion) const;
  Port local(std::uint32_t group, std::uint32_t from, std::uint32_t to) const;
  void choose(std::uint32_t group, std::uint32_t router, std::uint32_t last, Packet& packet,
              const Congestion& congestion, Random& random) const;

  std::uint32_t p_;
  std::uint32_t a_;
  std::uint32_t h_;
  std::uint32_t groups_;
  std::uint32_t radix_;
  Divider by_p_;
  Divider by_a_;
  Divider by_h_;
  Divider by_radix_;
  Routing routing_;
  double bias_;
  std::int32_t threshold_;
};

}  // namespace weir::sim::network
