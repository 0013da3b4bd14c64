// What hangs on a fabric: the nodes. They are asked for packets when there is room for them, and
// told of what arrives.
#pragma once

#include "tools/sim/network/packet.h"

namespace weir::sim::network {

class Endpoints {
 public:
  virtual ~Endpoints() = default;

  // The next packet of that kind that `node` has to send now, of at most `room` flits: fill in the
  // sender's part. False: none; Network::kick asks again.
  virtual bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) = 0;
  // All of it is in the node's memory.
  virtual void arrived(NodeId node, const Packet& packet) = 0;
  // It was lost on the way. No adapter hears of that; it is for those who keep count.
  virtual void lost(const Packet&) {}
  // The node will be told of that packet soon, or asked for one (nullptr): fetch its memory; with
  // `stage` 1, what that points to.
  virtual void soon(NodeId, const Packet*, unsigned /*stage*/) const {}
  // The time that Network::wake was asked for has come.
  virtual void woken(NodeId) {}
  // Whether they keep their own promises (a read budget). Asked at each of the fabric's recounts.
  virtual bool conserved() const { return true; }
};

}  // namespace weir::sim::network
