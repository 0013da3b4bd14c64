// Models of adapters whose receivers are the transport's: what is fetched when, and how much at a
// time, is decided by rendezvous/scheduler.h and rendezvous/budget_controller.h. Each receiver has
// a transfer without end from each of its sources, from the start.
//
//   Scheduler::next ─▶ request (one flit) ─▶ peer; its packets ◀─ peer ─▶ Scheduler::on_chunk_done
//
// What it has not: connections, eager frames, a bound for the reads of one connection. All of the
// core has them (whole_core.h).
//
// Single-threaded.
#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "rendezvous/scheduler_with_peers.h"
#include "tools/sim/network/traffic.h"

namespace weir::sim::network {
namespace {

class Reading final : public Traffic {
 public:
  Reading(const Scenario& scenario, const Roles& roles)
      : Traffic(scenario.fabric.topology.nodes()),
        scenario_(scenario),
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
    count(node, packet);
    read.missing_flits -= packet.flits;
    if (read.missing_flits > 0) return;
    const Read done = read;
    free_.push_back(packet.number);
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
    return under_way + free_.size() == reads_.size();
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
      if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(reads_.size()));
        reads_.emplace_back();
      }
      const std::uint32_t id = free_.back();
      free_.pop_back();
      reads_[id] = {.reader = node,
                    .source = static_cast<NodeId>(scheduler->request(chunk.transfer).token),
                    .bytes = chunk.length_bytes,
                    .missing_flits = flits_of(chunk.length_bytes),
                    .transfer = chunk.transfer,
                    .posted = now()};
      nodes_[node].to_send[1].push_back({id, 1});
      network().kick(node);
    }
  }

  Scenario scenario_;
  Roles roles_;
  double tick_ns_;
  std::vector<Node> nodes_;
  std::vector<Read> reads_;
  std::vector<std::uint32_t> free_;
};

}  // namespace

std::unique_ptr<Traffic> make_reading(const Scenario& scenario, const Roles& roles) {
  return std::make_unique<Reading>(scenario, roles);
}

}  // namespace weir::sim::network
