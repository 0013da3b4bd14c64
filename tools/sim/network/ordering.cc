#include "tools/sim/network/ordering.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "tools/sim/network/network.h"
#include "transport/lane/reorder_window.h"
#include "transport/lane/send_window.h"

namespace weir::sim::network {
namespace {

// Packet::flag.
enum Flag : std::uint8_t {
  fast,       // a request
  slow,       // one, and all before it have arrived: the target needs no connection
  refused,    // the answer: no connection, or no room to wait
  delivered,  // it did
  connected,  // it did, and there is a connection: those that were refused may come at once
  finished,   // the end of a stream, by its source
};

// What waits at a target.
struct Item {
  std::uint32_t index;
  Tick born;
};

// Both ends of every stream. A packet's number is that of its stream at the source, and its index.
class Streams final : public Endpoints {
 public:
  Streams(const OrderingScenario& scenario, std::uint64_t seed)
      : scenario_(scenario),
        last_(scenario.stream_packets - 1),
        random_(Random(seed).fork(5)),
        nodes_(scenario.fabric.topology.nodes()) {
    const Topology& t = scenario.fabric.topology;
    first_target_ = t.p * t.a * (t.groups() / 2);
    const Ordering ordering = scenario.ordering;
    if (ordering == Ordering::at_source) scenario_.places = 2;
    if (ordering == Ordering::at_source || ordering == Ordering::sync_source) {
      scenario_.one_by_one = true;
    }
  }

  void begin(Network& network) {
    network_ = &network;
    for (NodeId node = 0; node < scenario_.sources; ++node) begin_stream(node);
  }

  bool next(NodeId id, PacketKind kind, std::uint32_t room, Packet& packet) override {
    Node& node = nodes_[id];
    std::deque<Packet>& line = kind == PacketKind::request ? node.answers : node.again;
    if (room < scenario_.flits) return false;
    if (!line.empty()) {
      packet = line.front();
      line.pop_front();
      return true;
    }
    if (kind == PacketKind::request || node.sending == nullptr) return false;
    Stream& stream = *node.sending;
    if (!may_send(stream)) return false;
    if (network_->now() < node.due) {
      if (!std::exchange(node.waiting, true)) network_->wake(id, node.due);
      return false;
    }
    if (stream.window.next() == 0) stream.begun = network_->now();
    const bool last = stream.window.next() == last_;
    packet =
        data(stream, stream.window.take(), scenario_.ordering == Ordering::at_source ? slow : fast);
    node.due += gap(last);
    if (last) node.sending = nullptr;
    if (last && !scenario_.one_by_one) begin_stream(id);
    return true;
  }

  void woken(NodeId node) override {
    nodes_[node].waiting = false;
    network_->kick(node);
  }

  void arrived(NodeId node, const Packet& packet) override {
    const bool by_source = packet.kind == PacketKind::data || packet.flag == finished;
    const Key key{by_source ? packet.source : node, packet.number / most_packets};
    Stream& stream = streams_.at(key);
    if (packet.kind == PacketKind::data) {
      answer(node, packet, take(nodes_[node], stream, packet));
    } else if (packet.flag == finished) {
      if (stream.connected) --nodes_[node].connections;
      streams_.erase(key);
    } else {
      answered(node, stream, packet);
    }
  }

  // Both windows were always right, and nothing is held that is not counted.
  bool conserved() const override {
    std::uint64_t held = 0;
    for (const auto& [key, stream] : streams_) held += stream.order.held();
    for (const Node& node : nodes_) held -= node.held;
    return right_ && (scenario_.ordering != Ordering::at_target || held == 0);
  }

  void start() { seen_ = {}; }

  Values values(double cycles) const {
    return {{"throughput", seen_.up * scenario_.flits / cycles / scenario_.sources},
            {"stream_latency", seen_.stream_latency / seen_.streams / ticks_a_cycle},
            {"packet_latency", seen_.packet_latency / seen_.up / ticks_a_cycle},
            {"early", seen_.early / seen_.arrivals},
            {"held_peak", seen_.held_peak},
            {"held_mean", seen_.held / seen_.arrivals},
            {"connections_mean", seen_.connections / seen_.arrivals},
            {"refused", seen_.refused / seen_.arrivals},
            {"dropped", seen_.dropped / seen_.arrivals},
            {"drops", seen_.dropped}};
  }

 private:
  static constexpr std::uint32_t most_packets = 256;
  using Key = std::pair<NodeId, std::uint32_t>;  // the source, and its number there
  using Order = ReorderWindow<Item>;

  struct Stream {
    std::uint32_t number;  // of its first packet
    NodeId target;
    SendWindow window;                // the source's
    std::set<std::uint32_t> refused;  // the source's: to be sent again
    Tick begun = 0;
    Order order;             // the target's
    bool connected = false;  // the target's
  };

  struct Node {
    Stream* sending = nullptr;
    std::uint32_t streams = 0;
    Tick due = 0;
    bool waiting = false;
    std::deque<Packet> again;
    std::deque<Packet> answers;
    std::uint32_t held = 0;
    std::uint32_t connections = 0;
  };

  struct Seen {
    double arrivals = 0;
    double up = 0;
    double streams = 0;
    double early = 0;
    double held = 0;  // at each arrival
    double held_peak = 0;
    double connections = 0;  // at each arrival
    double refused = 0;
    double dropped = 0;
    double packet_latency = 0;
    double stream_latency = 0;
  };

  Packet data(const Stream& stream, std::uint32_t index, Flag flag) const {
    return {.target = stream.target,
            .flits = static_cast<std::uint16_t>(scenario_.flits),
            .flag = flag,
            .number = stream.number + index};
  }

  bool may_send(const Stream& stream) const {
    return stream.window.has_room() &&
           (scenario_.ordering != Ordering::sync_source || stream.window.next() != last_ ||
            stream.window.outstanding() == 0);
  }

  Tick exponential(double mean_cycles) {
    const double uniform = (static_cast<double>(random_.below(1 << 20)) + 0.5) / (1 << 20);
    return static_cast<Tick>(-std::log(uniform) * mean_cycles * ticks_a_cycle);
  }

  // From the start of a packet to that of the next one, for the load.
  Tick gap(bool last) {
    const Tick least = scenario_.flits * ticks_a_cycle;
    const double pause = scenario_.flits / scenario_.load - scenario_.flits;
    if (!scenario_.bursts) return least + exponential(pause);
    return least + (last ? exponential(pause * scenario_.stream_packets) : 0);
  }

  void begin_stream(NodeId source) {
    Node& node = nodes_[source];
    const std::uint32_t stream = node.streams++;
    const std::uint64_t drawn =
        scenario_.targets <= 2 ? source % scenario_.targets : random_.below(scenario_.targets);
    Stream made{.number = stream * most_packets,
                .target = first_target_ + static_cast<NodeId>(drawn),
                .window = SendWindow(scenario_.places),
                .refused = {},
                .order = Order(scenario_.places)};
    node.sending = &streams_.try_emplace({source, stream}, std::move(made)).first->second;
  }

  void answer(NodeId node, const Packet& to, Flag flag) {
    nodes_[node].answers.push_back(
        {.target = to.source, .flits = 1, .flag = flag, .number = to.number});
    network_->kick(node);
  }

  // Whether it has to wait for what is missing before it.
  bool waits(std::uint32_t index) const {
    return scenario_.ordering == Ordering::at_target ||
           (scenario_.ordering == Ordering::sync_target && index == last_);
  }

  void hand_up(const Item& item) {
    ++seen_.up;
    seen_.packet_latency += static_cast<double>(network_->now() - item.born);
  }

  Flag take(Node& node, Stream& stream, const Packet& packet) {
    const std::uint32_t index = packet.number % most_packets;
    ++seen_.arrivals;
    seen_.held += node.held;
    seen_.connections += node.connections;
    if (!stream.connected && scenario_.ordering != Ordering::at_source &&
        (scenario_.connections == 0 || node.connections < scenario_.connections)) {
      stream.connected = true;
      ++node.connections;
    }
    if (!stream.connected && packet.flag == fast) {
      ++seen_.refused;
      return refused;
    }
    if (scenario_.buffer > 0 && node.held == scenario_.buffer && waits(index) &&
        index != stream.order.expected()) {
      ++seen_.dropped;
      return refused;
    }
    const Item item{.index = index, .born = packet.born};
    const Order::Place place = stream.order.offer(index, item);
    if (place == Order::Place::next) {
      up(node, stream, item);
    } else if (place == Order::Place::early) {
      ++seen_.early;
      if (!waits(index)) {
        hand_up(item);
      } else {
        seen_.held_peak = std::max<double>(seen_.held_peak, ++node.held);
      }
    } else {
      right_ = false;  // nothing is sent twice, nor beyond the window
    }
    return stream.connected ? connected : delivered;
  }

  // The next one of a stream, and those that waited for it.
  void up(Node& node, Stream& stream, const Item& first) {
    hand_up(first);
    std::uint32_t next = first.index;
    while (const auto item = stream.order.take_next()) {
      right_ = right_ && item->index == ++next;
      if (!waits(item->index)) continue;
      --node.held;
      hand_up(*item);
    }
    if (next < last_) return;
    ++seen_.streams;
    seen_.stream_latency += static_cast<double>(network_->now() - stream.begun);
  }

  void answered(NodeId id, Stream& stream, const Packet& packet) {
    Node& node = nodes_[id];
    const std::uint32_t index = packet.number % most_packets;
    if (packet.flag == refused) {
      stream.refused.insert(index);
    } else {
      right_ = right_ && stream.window.acknowledge(index);
    }
    // The oldest one in slow mode, or all.
    const std::uint32_t oldest = stream.window.oldest();
    if (packet.flag == connected) {
      for (const std::uint32_t early : stream.refused) {
        node.again.push_back(data(stream, early, fast));
      }
      stream.refused.clear();
    } else if (stream.refused.erase(oldest) > 0) {
      node.again.push_back(data(stream, oldest, slow));
    }
    if (oldest > last_) {
      answer(id, packet, finished);
      if (node.sending == nullptr) begin_stream(id);
    }
    network_->kick(id);
  }

  OrderingScenario scenario_;
  std::uint32_t last_;  // index of a stream's
  Random random_;
  Network* network_ = nullptr;
  NodeId first_target_ = 0;
  std::vector<Node> nodes_;
  std::map<Key, Stream> streams_;
  Seen seen_;
  bool right_ = true;
};

}  // namespace

FabricConfig ordering_fabric() {
  FabricConfig fabric;
  fabric.topology = {.shape = Shape::dragonfly, .p = 4, .a = 8, .h = 4};
  fabric.switching.threshold = 200;
  fabric.switching.vc_flits = 2048;
  fabric.switching.local_cycles = 40;
  fabric.switching.global_cycles = 500;
  return fabric;
}

Measured run(const OrderingScenario& scenario, std::uint64_t seed) {
  Streams streams(scenario, seed);
  Network network({.fabric = scenario.fabric, .slowness = {}}, streams, seed);
  streams.begin(network);
  network.run_until(static_cast<Tick>(scenario.from_cycles) * ticks_a_cycle);
  streams.start();
  network.run_until(static_cast<Tick>(scenario.to_cycles) * ticks_a_cycle);
  Measured measured;
  measured.values = streams.values(static_cast<double>(scenario.to_cycles - scenario.from_cycles));
  measured.events = network.events();
  measured.trace_hash = network.trace_hash();
  measured.violation = network.violation();
  if (measured.violation.empty() && !streams.conserved()) measured.violation = "a window was wrong";
  return measured;
}

}  // namespace weir::sim::network
