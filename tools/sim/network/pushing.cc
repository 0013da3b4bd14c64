// Senders that send as fast as they may: a large message as one RDMA operation. With FECN/BECN they
// throttle themselves as in [RDRP §4.1].
#include <algorithm>
#include <vector>

#include "tools/sim/network/traffic.h"

namespace weir::sim::network {
namespace {

class Pushing final : public Traffic {
 public:
  Pushing(const Scenario& scenario, const Roles& roles)
      : Traffic(scenario.fabric.topology.nodes()), becn_(scenario.becn) {
    senders_.resize(roles.sources.size());
    for (NodeId receiver = 0; receiver < roles.sources.size(); ++receiver) {
      for (NodeId source : roles.sources[receiver]) senders_[source].targets.push_back(receiver);
    }
  }

  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override {
    Sender& sender = senders_[node];
    if (kind != PacketKind::data || sender.targets.empty() || room < packet_flits) return false;
    if (becn_.on && throttled(node, sender)) return false;
    packet.target = sender.targets[sender.turn];
    if (++sender.turn == sender.targets.size()) sender.turn = 0;
    packet.flits = packet_flits;
    if (sender.echoes > 0) {
      --sender.echoes;
      packet.flag = 1;
    }
    sender.sent = now();
    return true;
  }

  void arrived(NodeId node, const Packet& packet) override {
    count(node, packet);
    if (!becn_.on) return;
    Sender& sender = senders_[node];
    if (packet.marked) ++sender.echoes;
    decay(sender);
    if (packet.flag != 0) {
      sender.counter = std::min(sender.counter + becn_.increment, becn_.most);
    } else {
      sender.counter -= std::min(sender.counter, becn_.decrement);
    }
  }

  void woken(NodeId node) override {
    senders_[node].waiting = false;
    network().kick(node);
  }

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

  void decay(Sender& sender) const {
    const Tick step = becn_.decay_cycles * ticks_a_cycle;
    const Tick steps = (now() - sender.decayed) / step;
    sender.decayed += steps * step;
    sender.counter -= static_cast<std::uint32_t>(std::min<Tick>(sender.counter, steps));
  }

  // The rate falls linearly with the counter, to nothing at its most.
  bool throttled(NodeId node, Sender& sender) {
    decay(sender);
    if (sender.counter == 0) return false;
    const Tick step = becn_.decay_cycles * ticks_a_cycle;
    const Tick packet = packet_flits * ticks_a_cycle;
    Tick again = sender.decayed + step;  // when the counter falls
    if (sender.counter < becn_.most) {
      const Tick due = sender.sent + packet * becn_.most / (becn_.most - sender.counter);
      if (now() >= due) return false;
      again = std::min(again, due);
    }
    if (!sender.waiting) {
      sender.waiting = true;
      network().wake(node, std::max(again, now() + 1));
    }
    return true;
  }

  Becn becn_;
  std::vector<Sender> senders_;
};

}  // namespace

std::unique_ptr<Traffic> make_pushing(const Scenario& scenario, const Roles& roles) {
  return std::make_unique<Pushing>(scenario, roles);
}

}  // namespace weir::sim::network
