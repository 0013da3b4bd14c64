// Which port is connected to which, and where packets go. A port is one end of a link, with an
// input and an output; routers' ports come first, then one for each node.
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

// Division by a number that is known only at run time, without the instruction for it: half of what
// routing would cost. For what is divided below 2^24, by less than 2^12.
class Divider {
 public:
  explicit Divider(std::uint32_t by) : factor_((std::uint64_t{1} << shift) / by + 1) {}
  std::uint32_t operator()(std::uint32_t what) const {
    return static_cast<std::uint32_t>((what * factor_) >> shift);
  }

 private:
  static constexpr unsigned shift = 38;
  std::uint64_t factor_;
};

struct Link {
  Port peer = none;
  std::uint32_t cycles = 0;
};

// A router's way on.
struct Hop {
  Port port = none;
  std::uint32_t channel = 0;  // of data; requests have the same one of theirs
};

// What adaptive routing may know: how much waits behind a port, and which links are down, far ones
// too.
class Congestion {
 public:
  virtual std::int32_t queued_flits(Port port) const = 0;
  virtual bool down(Port port) const = 0;
  virtual bool some_down() const = 0;

 protected:
  ~Congestion() = default;
};

class Wiring {
 public:
  static std::unique_ptr<Wiring> dragonfly(const FabricConfig& config);
  static std::unique_ptr<Wiring> tree(const FabricConfig& config);  // or a single switch
  static std::unique_ptr<Wiring> make(const FabricConfig& config) {
    return config.topology.shape == Shape::dragonfly ? dragonfly(config) : tree(config);
  }
  virtual ~Wiring() = default;

  std::uint32_t nodes() const { return nodes_; }
  Port router_ports() const { return router_ports_; }
  Port port_of(NodeId node) const { return router_ports_ + node; }
  const std::vector<Link>& links() const { return links_; }

  // Where the packet goes from the router whose input port `in` is. May write the routers' part of
  // the packet: call it once a router.
  virtual Hop route(Port in, Packet& packet, const Congestion& congestion,
                    Random& random) const = 0;
  // Where it would go without a choice. Decides nothing.
  virtual Hop shortest(Port in, const Packet& packet) const = 0;
  // One end of each link that an outage may hit.
  virtual std::vector<Port> trunks() const = 0;

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
