#include "tools/sim/network/ordering.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "tools/sim/thread_time.h"

namespace weir::sim::network {
namespace {

// Both ends of every stream.
class Streams final : public Endpoints {
 public:
  Streams(const OrderingScenario& scenario, std::uint64_t seed)
      : scenario_(scenario), random_(Random(seed).fork(5)) {
    const Topology& t = scenario.fabric.topology;
    const std::uint32_t group = t.p * t.a;
    sources_.resize(scenario.sources);
    acks_.resize(t.nodes());
    // Sources in the first group, targets in one in the middle.
    first_target_ = group * (t.groups() / 2);
    targets_.resize(scenario.targets);
  }

  void begin(Network& network) {
    network_ = &network;
    for (NodeId node = 0; node < sources_.size(); ++node) begin_stream(node);
  }

  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override {
    if (kind == PacketKind::request) {
      if (acks_[node].empty()) return false;
      packet = acks_[node].back();
      acks_[node].pop_back();
      return true;
    }
    if (node >= sources_.size() || room < scenario_.flits) return false;
    Source& source = sources_[node];
    if (source.over || source.sent == scenario_.stream_packets || !may_send(source)) return false;
    if (network_->now() < source.due) {
      wait(node, source);
      return false;
    }
    if (source.sent == 0) begun_[source.stream] = network_->now();
    packet.target = source.target;
    packet.flits = static_cast<std::uint16_t>(scenario_.flits);
    packet.number = source.sent++;
    packet.tag = source.stream;
    source.due = network_->now() + gap();
    if (source.sent == scenario_.stream_packets) end_of_sending(node, source);
    return true;
  }

  void woken(NodeId node) override {
    sources_[node].waiting = false;
    network_->kick(node);
  }

  void arrived(NodeId node, const Packet& packet) override {
    if (packet.kind == PacketKind::request) {
      acknowledged(node, packet);
      return;
    }
    flits_ += packet.flits;
    ++packets_;
    deliver(node, packet);
    if (needs_acks()) {
      acks_[node].push_back(
          {.target = packet.source, .flits = 1, .number = packet.number, .tag = packet.tag});
      network_->kick(node);
    }
  }

  OrderingMeasured measured() const {
    OrderingMeasured result;
    const double cycles = static_cast<double>(network_->now()) / ticks_a_cycle;
    result.throughput = static_cast<double>(flits_) / cycles / static_cast<double>(sources_.size());
    result.stream_latency = streams_ == 0 ? 0 : latency_ / static_cast<double>(streams_);
    if (packets_ > 0) {
      result.out_of_order = static_cast<double>(early_) / static_cast<double>(packets_);
      result.reorder_mean = held_sum_ / static_cast<double>(packets_);
    }
    result.reorder_peak = held_peak_;
    result.connections_peak = connections_peak_;
    result.events = network_->events();
    result.trace_hash = network_->trace_hash();
    result.violation = network_->violation();
    return result;
  }

 private:
  struct Source {
    NodeId target = 0;
    std::uint64_t stream = 0;
    std::uint64_t begun = 0;
    std::uint32_t sent = 0;
    std::uint32_t acknowledged = 0;
    Tick due = 0;
    bool over = false;
    bool waiting = false;
  };

  struct Arriving {
    std::uint32_t next = 0;         // to be delivered
    std::set<std::uint32_t> early;  // there, but not next
  };

  struct Target {
    std::map<std::uint64_t, Arriving> streams;
    std::uint32_t held = 0;
  };

  bool needs_acks() const {
    return scenario_.ordering == Ordering::at_source || scenario_.ordering == Ordering::sync_source;
  }

  bool may_send(const Source& source) const {
    switch (scenario_.ordering) {
      case Ordering::at_source: return source.acknowledged == source.sent;
      case Ordering::sync_source:
        return source.sent + 1 < scenario_.stream_packets || source.acknowledged == source.sent;
      default: return true;
    }
  }

  // From the start of a packet to that of the next one, for the load.
  Tick gap() {
    const double packet = scenario_.flits;
    double cycles = packet;
    if (scenario_.load < 1 && !scenario_.bursts) {
      const double uniform = (static_cast<double>(random_.below(1 << 20)) + 0.5) / (1 << 20);
      cycles += -std::log(uniform) * (packet / scenario_.load - packet);
    }
    return static_cast<Tick>(cycles * ticks_a_cycle);
  }

  void wait(NodeId node, Source& source) {
    if (source.waiting) return;
    source.waiting = true;
    network_->wake(node, source.due);
  }

  void begin_stream(NodeId node) {
    Source& source = sources_[node];
    if (scenario_.streams > 0 && source.begun == scenario_.streams) {
      source.over = true;
      return;
    }
    ++source.begun;
    source.stream = ++last_stream_;
    source.sent = source.acknowledged = 0;
    // With few targets each source keeps to its own.
    const std::uint64_t which = scenario_.targets <= 2 ? node : random_.below(scenario_.targets);
    source.target = first_target_ + static_cast<NodeId>(which % scenario_.targets);
  }

  // The next stream follows at once, or where streams are timed one by one, when this one is over.
  void end_of_sending(NodeId node, Source& source) {
    if (needs_acks() || scenario_.streams > 0) return;
    if (scenario_.bursts) {
      const double burst = scenario_.stream_packets * scenario_.flits;
      const double pause = burst / scenario_.load - burst;
      const double uniform = (static_cast<double>(random_.below(1 << 20)) + 0.5) / (1 << 20);
      source.due += static_cast<Tick>(-std::log(uniform) * pause * ticks_a_cycle);
    }
    begin_stream(node);
  }

  void acknowledged(NodeId node, const Packet& packet) {
    Source& source = sources_[node];
    if (packet.tag != source.stream) return;
    if (++source.acknowledged == scenario_.stream_packets && scenario_.streams == 0) {
      begin_stream(node);
    }
    network_->kick(node);
  }

  // What of the stream has to be held back for what is missing.
  std::uint32_t held(const Arriving& stream) const {
    if (scenario_.ordering == Ordering::at_target) {
      return static_cast<std::uint32_t>(stream.early.size());
    }
    if (scenario_.ordering != Ordering::sync_target) return 0;
    return stream.early.contains(scenario_.stream_packets - 1) ? 1 : 0;
  }

  void deliver(NodeId node, const Packet& packet) {
    Target& target = targets_[node - first_target_];
    Arriving& stream = target.streams[packet.tag];
    connections_peak_ =
        std::max(connections_peak_, static_cast<std::uint32_t>(target.streams.size()));
    target.held -= held(stream);
    stream.early.insert(packet.number);
    if (packet.number != stream.next) ++early_;
    while (stream.early.erase(stream.next) > 0) ++stream.next;
    target.held += held(stream);
    held_peak_ = std::max(held_peak_, target.held);
    held_sum_ += target.held;
    if (stream.next < scenario_.stream_packets) return;
    target.streams.erase(packet.tag);
    const auto begun = begun_.find(packet.tag);
    latency_ += static_cast<double>(network_->now() - begun->second) / ticks_a_cycle;
    begun_.erase(begun);
    ++streams_;
    if (scenario_.streams > 0) {
      begin_stream(packet.source);
      network_->kick(packet.source);
    }
  }

  OrderingScenario scenario_;
  Random random_;
  Network* network_ = nullptr;
  NodeId first_target_ = 0;
  std::vector<Source> sources_;
  std::vector<Target> targets_;
  std::vector<std::vector<Packet>> acks_;
  std::map<std::uint64_t, Tick> begun_;  // by stream: its first packet's start
  std::uint64_t last_stream_ = 0;
  std::uint64_t flits_ = 0;
  std::uint64_t packets_ = 0;
  std::uint64_t early_ = 0;
  std::uint64_t streams_ = 0;
  double latency_ = 0;
  double held_sum_ = 0;
  std::uint32_t held_peak_ = 0;
  std::uint32_t connections_peak_ = 0;
};

}  // namespace

OrderingMeasured run(const OrderingScenario& scenario, std::uint64_t seed) {
  const double begin = thread_cpu_seconds();
  Streams streams(scenario, seed);
  Network network({.fabric = scenario.fabric, .slowness = {}, .outages = {}}, streams, seed);
  streams.begin(network);
  network.run_until(static_cast<Tick>(scenario.cycles) * ticks_a_cycle);
  OrderingMeasured measured = streams.measured();
  measured.cpu_s = thread_cpu_seconds() - begin;
  return measured;
}

FabricConfig ordering_fabric() {
  FabricConfig fabric;
  fabric.topology = {.shape = Shape::dragonfly, .p = 4, .a = 8, .h = 4};
  fabric.switching.local_cycles = 40;
  fabric.switching.global_cycles = 500;
  fabric.switching.vc_flits = 2048;
  fabric.switching.metric = QueueMetric::backlog;
  return fabric;
}

}  // namespace weir::sim::network
