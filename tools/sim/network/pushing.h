// Senders that send as fast as they may: a large message as one RDMA operation. With FECN/BECN they
// throttle themselves as in [RDRP §4.1].
#pragma once

#include <vector>

#include "tools/sim/network/traffic.h"

namespace weir::sim::network {

class Pushing final : public Traffic {
 public:
  Pushing(const Scenario& scenario, const Roles& roles);

  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override;
  void arrived(NodeId node, const Packet& packet) override;
  void woken(NodeId node) override;

 private:
  struct Sender {
    std::vector<NodeId> targets;  // served in turn
    std::uint32_t turn = 0;
    std::uint32_t echoes = 0;  // packets with FECN that no BECN was sent for
    std::uint32_t counter = 0;
    Tick decayed = 0;  // up to here
    Tick sent = 0;
    bool waiting = false;
  };

  void decay(Sender& sender) const;
  bool throttled(NodeId node, Sender& sender);

  Becn becn_;
  std::vector<Sender> senders_;
};

}  // namespace weir::sim::network
