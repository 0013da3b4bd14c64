// What a fabric is made of, what hangs on it, and what is sent. Times are cycles, in which a link
// moves one flit, or ticks of them. The defaults are those of [RDRP §4.1]; where the paper is
// silent, what reproduces its shapes (see README.md).
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tools/sim/network/wheel.h"
#include "tools/sim/random.h"

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

using PacketId = std::uint32_t;
using NodeId = std::uint32_t;

inline constexpr std::uint32_t none = UINT32_MAX;

enum class PacketKind : std::uint8_t {
  data,     // goes into the target's memory
  request,  // for the target's adapter alone
};

// Things that come and go, by number; the number of one that is gone is used again.
template <typename T>
class Numbered {
 public:
  std::uint32_t add(T thing) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(things_.size()));
      things_.emplace_back();
    }
    const std::uint32_t number = free_.back();
    free_.pop_back();
    things_[number] = std::move(thing);
    return number;
  }
  void remove(std::uint32_t number) { free_.push_back(number); }
  T& operator[](std::uint32_t number) { return things_[number]; }
  const T& operator[](std::uint32_t number) const { return things_[number]; }
  std::size_t count() const { return things_.size() - free_.size(); }

 private:
  std::vector<T> things_;
  std::vector<std::uint32_t> free_;
};

// One on its way: what its sender wrote, and what the routers note in it.
struct alignas(64) Packet {
  // The sender's.
  NodeId source = 0;
  NodeId target = 0;
  std::uint16_t flits = 0;
  PacketKind kind = PacketKind::data;
  std::uint8_t flag = 0;     // the endpoints'
  std::uint32_t number = 0;  // the endpoints'
  // The routers'.
  bool marked = false;  // FECN
  bool passed_via = false;
  std::uint32_t via = none;  // the group it goes by
  std::uint32_t input = 0;   // the virtual channel it is in, or on its way to
  PacketId next = none;      // in its queue
  Tick born = 0;             // entered the fabric
  Tick complete = 0;         // its last flit is in the present buffer
};

// What hangs on a fabric, the nodes: they are asked for packets when there is room for them, and
// told of what arrives.
class Endpoints {
 public:
  virtual ~Endpoints() = default;

  // The next packet of that kind that `node` has to send now, of at most `room` flits: fill in the
  // sender's part. False: none; Network::kick asks again.
  virtual bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) = 0;
  // All of it is in the node's memory.
  virtual void arrived(NodeId node, const Packet& packet) = 0;
  // The time that Network::wake was asked for has come.
  virtual void woken(NodeId) {}
  // Whether they keep their own promises (a read budget). Asked at each of the fabric's recounts.
  virtual bool conserved() const { return true; }
};

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

// Which port is connected to which, and where packets go. A port is one end of a link, with an
// input and an output; routers' ports come first, then one for each node. Immutable once made.
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
