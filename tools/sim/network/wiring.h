// Which port is connected to which, and where packets go. A port is one end of a link, with an
// input and an output; routers' ports come first, then one for each node.
//
// Immutable once made.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tools/sim/network/config.h"
#include "tools/sim/network/packet.h"
#include "tools/sim/random.h"

namespace weir::sim::network {

using Port = std::uint32_t;

inline constexpr std::uint32_t data_channels = 4;  // virtual channels of data, and as many of
inline constexpr std::uint32_t channels = 8;       // requests

struct Link {
  Port peer = none;
  std::uint32_t cycles = 0;
};

// A router's way on.
struct Hop {
  Port port = none;
  std::uint32_t channel = 0;  // of data; requests have the same one of theirs
};

// What adaptive routing knows of each port: the flits that wait behind it.
using Queued = std::vector<std::int32_t>;

class Wiring {
 public:
  static std::unique_ptr<Wiring> make(const FabricConfig& config);
  virtual ~Wiring() = default;

  std::uint32_t nodes() const { return nodes_; }
  Port router_ports() const { return router_ports_; }
  Port port_of(NodeId node) const { return router_ports_ + node; }
  const std::vector<Link>& links() const { return links_; }

  // Where the packet goes from the router whose input port `in` is. May write the routers' part of
  // the packet: call it once a router.
  virtual Hop route(Port in, Packet& packet, const Queued& queued, Random& random) const = 0;

 protected:
  Wiring(std::uint32_t nodes, Port router_ports)
      : nodes_(nodes), router_ports_(router_ports), links_(router_ports + nodes) {}

  void connect(Port a, Port b, std::uint32_t cycles) {
    links_[a] = {b, cycles};
    links_[b] = {a, cycles};
  }

 private:
  std::uint32_t nodes_;
  Port router_ports_;
  std::vector<Link> links_;
};

}  // namespace weir::sim::network
