// Models of adapters on the fabric: senders that send as fast as they may, and receivers that
// fetch.
#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "rendezvous/scheduler_with_peers.h"
#include "tools/sim/network/network.h"
#include "tools/sim/network/scenario.h"
#include "tools/sim/network/whole_core.h"

namespace weir::sim::network {
namespace {

// Endpoints that keep count.
class Traffic : public Endpoints {
 public:
  // What arrived.
  struct Counted {
    std::uint64_t flits = 0;
    std::uint64_t packets = 0;
    Tick latency = 0;  // of all of them
  };
  const Counted& counted() const { return counted_; }

  // Before the first event.
  virtual void begin(Network& network) { network_ = &network; }
  // The mean of the reads that receivers have under way.
  virtual double mean_reads() const { return 0; }

 protected:
  Network& network() { return *network_; }
  Tick now() const { return network_->now(); }
  void count(const Packet& packet) {
    counted_.flits += packet.flits;
    ++counted_.packets;
    counted_.latency += now() - packet.born;
  }

 private:
  Network* network_ = nullptr;
  Counted counted_;
};

// A large message is one RDMA operation. With FECN/BECN senders throttle themselves as in
// [RDRP §4.1].
class Pushing final : public Traffic {
 public:
  Pushing(const Scenario& scenario, const Roles& roles)
      : becn_(scenario.becn), senders_(roles.sources.size()) {
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
    count(packet);
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

// The receivers are the transport's: what is fetched when, and how much at a time, is decided by
// rendezvous/scheduler.h and rendezvous/budget_controller.h. Each receiver has a transfer without
// end from each of its sources, from the start.
//
//   Scheduler::next ─▶ request (one flit) ─▶ peer; its packets ◀─ peer ─▶ Scheduler::on_chunk_done
//
// What it has not: connections, eager frames, a bound for the reads of one connection. All of the
// core has them (whole_core.h).
class Reading final : public Traffic {
 public:
  Reading(const Scenario& scenario, const Roles& roles)
      : scenario_(scenario),
        roles_(roles),
        tick_ns_(scenario.cycle_ns / ticks_a_cycle),
        nodes_(roles.sources.size()) {}

  void begin(Network& network) override {
    Traffic::begin(network);
    for (NodeId node = 0; node < nodes_.size(); ++node) {
      const auto sources = static_cast<std::uint32_t>(roles_.sources[node].size());
      if (sources == 0) continue;
      auto& scheduler = nodes_[node].scheduler;
      scheduler = std::make_unique<SchedulerWithPeers>(scheduler_config(scenario_));
      for (std::uint32_t source = 0; source < sources; ++source) {
        scheduler->open_peer(PeerId{source}, ChunkBudget::no_limit);
        scheduler->submit({.kind = TransferKind::get,
                           .peer = PeerId{source},
                           .remote_address = 0,
                           .local_address = 0,
                           .length_bytes = std::uint64_t{1} << 44u,
                           .token = roles_.sources[node][source]});
      }
    }
    for (NodeId node = 0; node < nodes_.size(); ++node) issue(node);
  }

  bool next(NodeId id, PacketKind kind, std::uint32_t room, Packet& packet) override {
    auto& queue = nodes_[id].to_send[static_cast<unsigned>(kind)];
    if (queue.empty()) return false;
    Sending& sending = queue.front();
    const std::uint32_t flits = std::min(sending.flits, packet_flits);
    if (flits > room) return false;
    const Read& read = reads_[sending.read];
    packet.target = kind == PacketKind::request ? read.source : read.reader;
    packet.flits = static_cast<std::uint16_t>(flits);
    packet.number = sending.read;
    sending.flits -= flits;
    if (sending.flits == 0) queue.pop_front();
    return true;
  }

  void arrived(NodeId node, const Packet& packet) override {
    Read& read = reads_[packet.number];
    if (packet.kind == PacketKind::request) {
      nodes_[node].to_send[0].push_back({packet.number, read.missing_flits});
      return network().kick(node);
    }
    count(packet);
    read.missing_flits -= packet.flits;
    if (read.missing_flits > 0) return;
    const Read done = read;
    reads_.remove(packet.number);
    const auto took = static_cast<double>(now() - done.posted) * tick_ns_;
    const Time time{static_cast<std::int64_t>(static_cast<double>(now()) * tick_ns_)};
    nodes_[node].scheduler->on_chunk_done(time, done.transfer, done.bytes,
                                          {static_cast<std::int64_t>(took)});
    issue(node);
  }

  bool conserved() const override {
    std::uint64_t under_way = 0;
    for (const Node& node : nodes_) {
      if (node.scheduler == nullptr) continue;
      if (!node.scheduler->conserved()) return false;
      under_way += node.scheduler->reads().chunks();
    }
    return under_way == reads_.count();
  }

  double mean_reads() const override {
    double reads = 0;
    double receivers = 0;
    for (const Node& node : nodes_) {
      if (node.scheduler == nullptr) continue;
      reads += static_cast<double>(node.scheduler->reads().chunks());
      ++receivers;
    }
    return reads / std::max(receivers, 1.0);
  }

 private:
  struct Read {
    NodeId reader = 0;
    NodeId source = 0;
    std::uint32_t bytes = 0;
    std::uint32_t missing_flits = 0;
    TransferId transfer{};
    Tick posted = 0;
  };

  // What a node has to send: flits of data, or a request.
  struct Sending {
    std::uint32_t read = 0;
    std::uint32_t flits = 0;
  };

  struct Node {
    std::unique_ptr<SchedulerWithPeers> scheduler;  // of those that receive
    std::deque<Sending> to_send[2];                 // by PacketKind
  };

  void issue(NodeId node) {
    SchedulerWithPeers* const scheduler = nodes_[node].scheduler.get();
    Chunk chunk;
    while (scheduler != nullptr && scheduler->next(chunk)) {
      const std::uint32_t id =
          reads_.add({.reader = node,
                      .source = static_cast<NodeId>(scheduler->request(chunk.transfer).token),
                      .bytes = chunk.length_bytes,
                      .missing_flits = flits_of(chunk.length_bytes),
                      .transfer = chunk.transfer,
                      .posted = now()});
      nodes_[node].to_send[1].push_back({id, 1});
      network().kick(node);
    }
  }

  Scenario scenario_;
  Roles roles_;
  double tick_ns_;
  std::vector<Node> nodes_;
  Numbered<Read> reads_;
};

}  // namespace

Measured run(const Scenario& scenario, std::uint64_t seed) {
  if (scenario.endpoints == EndpointsAre::core) return run_core(scenario, seed);
  const Roles roles = draw_roles(scenario, seed);
  std::unique_ptr<Traffic> traffic;
  if (scenario.protocol == Protocol::push) {
    traffic = std::make_unique<Pushing>(scenario, roles);
  } else {
    traffic = std::make_unique<Reading>(scenario, roles);
  }
  Network network({.fabric = scenario.fabric, .slowness = roles.slowness}, *traffic, seed);
  traffic->begin(network);

  Measured result;
  const double nodes = network.nodes();
  constexpr std::uint64_t window = 1'000;
  double best_window = 0;
  Traffic::Counted start;
  for (std::uint64_t cycle = 0; cycle < scenario.to_cycles && result.violation.empty();) {
    const Traffic::Counted before = traffic->counted();
    if (cycle == scenario.from_cycles) start = before;
    std::uint64_t until = std::min((cycle / window + 1) * window, scenario.to_cycles);
    if (cycle < scenario.from_cycles) until = std::min(until, scenario.from_cycles);
    network.run_until(static_cast<Tick>(until) * ticks_a_cycle);
    if (until - cycle == window) {
      const std::uint64_t flits = traffic->counted().flits - before.flits;
      best_window = std::max(best_window, static_cast<double>(flits) / window / nodes);
    }
    cycle = until;
    result.violation = network.violation();
  }
  const auto cycles = static_cast<double>(scenario.to_cycles - scenario.from_cycles);
  const Traffic::Counted& end = traffic->counted();
  const auto packets = static_cast<double>(std::max<std::uint64_t>(end.packets - start.packets, 1));
  result.values = {{"throughput", static_cast<double>(end.flits - start.flits) / cycles / nodes},
                   {"best_window", best_window},
                   {"latency_cycles",
                    static_cast<double>(end.latency - start.latency) / packets / ticks_a_cycle},
                   {"reads", traffic->mean_reads()}};
  result.events = network.events();
  result.trace_hash = network.trace_hash();
  return result;
}

}  // namespace weir::sim::network
