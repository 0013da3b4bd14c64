// Whole adapters (tools/sim/nic.h) on the packet-level fabric: their messages are cut into packets,
// sent over the links of a node in turn with those of its other queue pairs, and put in order again
// by the target, for packets overtake each other under adaptive routing.
//
// An acknowledgement or a request to read is one flit, on the channels of requests; what goes into
// memory takes those of data.
//
// The event queue leads; a tick in which a message arrives is an event that may come before the
// next one. What leaves at the time of an event is in the network in the first tick that is not
// before.
//
// Single-threaded.
#include <algorithm>
#include <array>
#include <cmath>
#include <list>
#include <utility>
#include <vector>

#include "tools/sim/fabric.h"
#include "tools/sim/network/network.h"
#include "tools/sim/network/whole_core.h"

namespace weir::sim::network {
namespace {

class PacketWire final : public Wire, private Endpoints {
 public:
  PacketWire(Fabric& fabric, const Scenario& scenario, const Roles& roles, std::uint64_t seed)
      : fabric_(fabric),
        cycle_ps_(std::llround(scenario.cycle_ns * 1'000)),
        processes_(scenario.processes),
        network_({.fabric = scenario.fabric, .slowness = roles.slowness}, *this, seed),
        turns_(network_.nodes()) {}

  Stream open(sim::Node from, sim::Node to) override {
    flows_.push_back({from / processes_, to / processes_, {}, {}});
    return static_cast<Stream>(flows_.size() - 1);
  }

  // The adapter's own work; the link is the network's.
  Duration line_time(std::uint32_t) const override { return fabric_.timing.per_frame; }

  void send(Stream stream, Kind kind, std::uint32_t bytes, Action arrive) override {
    leave(add(stream, kind, bytes), std::move(arrive));
  }

  void send_at(Time leaves, Stream stream, Kind kind, std::uint32_t bytes, Load load) override {
    const MessageId id = add(stream, kind, bytes);
    fabric_.events.at(leaves, [this, id, load = std::move(load)] {
      if (Action arrive = load()) return leave(id, std::move(arrive));
      end(id);
    });
  }

  void catch_up() override {
    while (under_way_ > 0 && time_of(network_.now()) < fabric_.events.next()) {
      network_.run_until(network_.now() + 1);
      if (network_.violation().empty()) continue;
      return fabric_.violation("the packet-level fabric: " + network_.violation());
    }
  }

  bool adds_up() const override {
    return network_.violation().empty() && network_.conserved() && conserved() &&
           (under_way_ > 0 || network_.idle());
  }

  Counts counts() const override {
    return {.events = network_.events(), .hash = network_.trace_hash()};
  }

 private:
  using MessageId = std::uint32_t;

  struct Message {
    Stream stream{};
    PacketKind kind = PacketKind::data;
    std::uint32_t unsent_flits = 0;
    std::uint32_t missing_flits = 0;
    bool over = false;
    Action arrive;  // empty: there was nothing to send
  };

  // Lists, for most are empty.
  struct Flow {
    NodeId from = 0;
    NodeId to = 0;
    std::list<MessageId> order;                   // those that were not handed up yet
    std::array<std::list<MessageId>, 2> to_send;  // by PacketKind
  };

  static std::size_t lane(PacketKind kind) { return static_cast<std::size_t>(kind); }
  Flow& flow(Stream stream) { return flows_[static_cast<std::uint32_t>(stream)]; }

  // The first tick that is not before that time, and the time of a tick.
  Tick tick_at(Time time) const {
    const std::int64_t tick_of_1000_cycles = 1'000 * ticks_a_cycle;
    return (time.ns * tick_of_1000_cycles + cycle_ps_ - 1) / cycle_ps_;
  }

  Time time_of(Tick tick) const { return {tick * cycle_ps_ / (1'000 * ticks_a_cycle)}; }

  MessageId add(Stream stream, Kind kind, std::uint32_t bytes) {
    const std::uint32_t flits = std::max(flits_of(bytes), 1u);
    const MessageId id =
        messages_.add({.stream = stream,
                       .kind = kind == Kind::data ? PacketKind::data : PacketKind::request,
                       .unsent_flits = flits,
                       .missing_flits = flits,
                       .arrive = {}});
    flow(stream).order.push_back(id);
    return id;
  }

  void leave(MessageId id, Action arrive) {
    // While nothing is under way the network stands still.
    network_.run_until(tick_at(fabric_.events.now()));
    ++under_way_;
    Message& message = messages_[id];
    message.arrive = std::move(arrive);
    Flow& from = flow(message.stream);
    auto& to_send = from.to_send[lane(message.kind)];
    to_send.push_back(id);
    if (to_send.size() == 1) turns_[from.from][lane(message.kind)].push_back(message.stream);
    network_.kick(from.from);
  }

  // It is all there: it goes up, with those that waited for it.
  void end(MessageId id) {
    messages_[id].over = true;
    auto& order = flow(messages_[id].stream).order;
    while (!order.empty() && messages_[order.front()].over) {
      const MessageId first = order.front();
      order.pop_front();
      Message& message = messages_[first];
      if (message.arrive) {
        fabric_.events.at(time_of(network_.now()), std::move(message.arrive));
      }
      message = {};
      messages_.remove(first);
    }
  }

  // Endpoints
  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override {
    auto& turns = turns_[node][lane(kind)];
    if (turns.empty()) return false;
    Flow& from = flow(turns.front());
    auto& to_send = from.to_send[lane(kind)];
    Message& message = messages_[to_send.front()];
    const std::uint32_t flits = std::min(message.unsent_flits, packet_flits);
    if (flits > room) return false;
    packet.target = from.to;
    packet.flits = static_cast<std::uint16_t>(flits);
    packet.number = to_send.front();
    message.unsent_flits -= flits;
    if (message.unsent_flits == 0) to_send.pop_front();
    if (to_send.empty()) {
      turns.pop_front();
    } else {
      turns.splice(turns.end(), turns, turns.begin());
    }
    return true;
  }

  void arrived(NodeId, const Packet& packet) override {
    Message& message = messages_[packet.number];
    message.missing_flits -= packet.flits;
    if (message.missing_flits > 0) return;
    --under_way_;
    end(packet.number);
  }

  // Every message is in its place.
  bool conserved() const override {
    std::uint64_t waiting = 0;
    for (const Flow& flow : flows_) waiting += flow.order.size();
    return waiting == messages_.count() && under_way_ <= waiting;
  }

  Fabric& fabric_;
  std::int64_t cycle_ps_;
  std::uint32_t processes_;  // of a node
  Network network_;
  std::vector<Flow> flows_;  // by stream
  Numbered<Message> messages_;
  std::vector<std::array<std::list<Stream>, 2>> turns_;  // by node and PacketKind: who sends
  std::uint64_t under_way_ = 0;                          // messages that left and are not over
};

}  // namespace

std::unique_ptr<Wire> make_packet_wire(Fabric& fabric, const Scenario& scenario, const Roles& roles,
                                       std::uint64_t seed) {
  return std::make_unique<PacketWire>(fabric, scenario, roles, seed);
}

}  // namespace weir::sim::network
