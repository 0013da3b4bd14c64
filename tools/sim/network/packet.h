// One packet on its way: what its sender wrote, and what the routers note in it. And what hangs on
// a fabric, the nodes: they are asked for packets when there is room for them, and told of what
// arrives.
//
// Single-threaded.
#pragma once

#include <cstdint>

#include "tools/sim/network/wheel.h"

namespace weir::sim::network {

using PacketId = std::uint32_t;
using NodeId = std::uint32_t;

inline constexpr std::uint32_t none = UINT32_MAX;

enum class PacketKind : std::uint8_t {
  data,     // goes into the target's memory
  request,  // for the target's adapter alone
};

struct alignas(64) Packet {
  // The sender's.
  NodeId source = 0;
  NodeId target = 0;
  std::uint16_t flits = 0;
  PacketKind kind = PacketKind::data;
  std::uint8_t flag = 0;     // the endpoints'
  std::uint32_t number = 0;  // the endpoints'
  // The routers'.
  bool marked = false;    // FECN
  bool passed_via = false;
  std::uint32_t via = none;  // the group it goes by
  std::uint32_t input = 0;   // the virtual channel it is in, or on its way to
  PacketId next = none;      // in its queue
  Tick born = 0;             // entered the fabric
  Tick complete = 0;         // its last flit is in the present buffer
};

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

}  // namespace weir::sim::network
