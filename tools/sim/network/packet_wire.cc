// Whole adapters (tools/sim/nic.h) on the packet-level fabric: their messages are cut into packets,
// sent over the links of a node in turn with those of its other queue pairs, and put in order again
// by the target, for packets overtake each other under adaptive routing.
//
//   Nic::transmit ─▶ send │ packets ─▶ Network ─▶ packets │ all there, and all before them ─▶ event
//
// An acknowledgement or a request to read is one flit, on the channels of requests; what goes into
// memory takes those of data. A message of which a packet was lost never arrives, and no longer
// holds up what is behind it: the adapter turns that away, as any that is out of order.
//
// The event queue leads. Before each of its events the network plays on to that time, or to the
// tick in which a message arrives, which is an event that may come before. What leaves at the time
// of an event is in the network in the first tick that is not before it.
//
// Single-threaded.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "tools/sim/fabric.h"
#include "tools/sim/network/network.h"
#include "tools/sim/network/ring.h"
#include "tools/sim/network/whole_core.h"
#include "tools/sim/wire.h"

namespace weir::sim::network {
namespace {

std::size_t lane(PacketKind kind) { return static_cast<std::size_t>(kind); }

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
    const MessageId id = add(stream, kind, bytes);
    messages_[id].arrive = std::move(arrive);
    leave(id);
  }

  void send_at(Time leaves, Stream stream, Kind kind, std::uint32_t bytes, Load load) override {
    const MessageId id = add(stream, kind, bytes);
    fabric_.events.at(leaves, [this, id, load = std::move(load)] {
      Action arrive = load();
      if (!arrive) {
        messages_[id].harmed = true;
        return end(id);
      }
      messages_[id].arrive = std::move(arrive);
      leave(id);
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
    return {.messages = handed_over_,
            .delivered_flits = network_.delivered_flits(),
            .lost_packets = network_.lost_packets(),
            .events = network_.events(),
            .detours = network_.detours(),
            .hash = network_.trace_hash()};
  }

 private:
  using MessageId = std::uint32_t;

  struct Message {
    Stream stream{};
    PacketKind kind = PacketKind::data;
    std::uint32_t unsent_flits = 0;
    std::uint32_t missing_flits = 0;
    bool harmed = false;  // a packet was lost, or there was nothing to send
    bool over = false;
    Action arrive;
  };

  struct Flow {
    NodeId from = 0;
    NodeId to = 0;
    Ring<MessageId> order;                   // those that were not handed up yet
    std::array<Ring<MessageId>, 2> to_send;  // by PacketKind
  };

  Flow& flow(Stream stream) { return flows_[static_cast<std::uint32_t>(stream)]; }

  // The first tick that is not before that time, and the time of a tick.
  Tick tick_at(Time time) const {
    const std::int64_t tick_of_1000_cycles = 1'000 * ticks_a_cycle;
    return (time.ns * tick_of_1000_cycles + cycle_ps_ - 1) / cycle_ps_;
  }

  Time time_of(Tick tick) const { return {tick * cycle_ps_ / (1'000 * ticks_a_cycle)}; }

  MessageId add(Stream stream, Kind kind, std::uint32_t bytes) {
    if (free_.empty()) {
      free_.push_back(static_cast<MessageId>(messages_.size()));
      messages_.emplace_back();
    }
    const MessageId id = free_.back();
    free_.pop_back();
    const std::uint32_t flits = std::max(flits_of(bytes), 1u);
    messages_[id] = {.stream = stream,
                     .kind = kind == Kind::data ? PacketKind::data : PacketKind::request,
                     .unsent_flits = flits,
                     .missing_flits = flits,
                     .arrive = {}};
    flow(stream).order.push_back(id);
    ++handed_over_;
    return id;
  }

  void leave(MessageId id) {
    // While nothing is under way the network stands still.
    network_.run_until(tick_at(fabric_.events.now()));
    ++under_way_;
    const Message& message = messages_[id];
    Flow& from = flow(message.stream);
    auto& to_send = from.to_send[lane(message.kind)];
    to_send.push_back(id);
    if (to_send.size() == 1) turns_[from.from][lane(message.kind)].push_back(message.stream);
    network_.kick(from.from);
  }

  void account(const Packet& packet, bool lost) {
    Message& message = messages_[packet.number];
    message.missing_flits -= packet.flits;
    message.harmed |= lost;
    if (message.missing_flits > 0) return;
    --under_way_;
    end(packet.number);
  }

  // It is all there, or never will be: it goes up, with those that waited for it.
  void end(MessageId id) {
    messages_[id].over = true;
    auto& order = flow(messages_[id].stream).order;
    while (!order.empty() && messages_[order.front()].over) {
      const MessageId first = order.front();
      order.pop_front();
      Message& message = messages_[first];
      if (!message.harmed) fabric_.events.at(time_of(network_.now()), std::move(message.arrive));
      message = {};
      free_.push_back(first);
    }
  }

  // Endpoints
  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override {
    auto& turns = turns_[node][lane(kind)];
    if (turns.empty()) return false;
    const Stream stream = turns.front();
    Flow& from = flow(stream);
    auto& to_send = from.to_send[lane(kind)];
    const MessageId id = to_send.front();
    Message& message = messages_[id];
    const std::uint32_t flits = std::min(message.unsent_flits, packet_flits);
    if (flits > room) return false;
    packet.target = from.to;
    packet.flits = static_cast<std::uint16_t>(flits);
    packet.number = id;
    message.unsent_flits -= flits;
    if (message.unsent_flits == 0) to_send.pop_front();
    turns.pop_front();
    if (!to_send.empty()) turns.push_back(stream);
    return true;
  }

  void arrived(NodeId, const Packet& packet) override { account(packet, false); }

  void lost(const Packet& packet) override { account(packet, true); }

  // Every message is in its place.
  bool conserved() const override {
    std::uint64_t waiting = 0;
    for (const Flow& flow : flows_) waiting += flow.order.size();
    return waiting + free_.size() == messages_.size() && under_way_ <= waiting;
  }

  Fabric& fabric_;
  std::int64_t cycle_ps_;
  std::uint32_t processes_;  // of a node
  Network network_;
  std::vector<Flow> flows_;  // by stream
  std::vector<Message> messages_;
  std::vector<MessageId> free_;
  std::vector<std::array<Ring<Stream>, 2>> turns_;  // by node and PacketKind: who has to send
  std::uint64_t handed_over_ = 0;
  std::uint64_t under_way_ = 0;  // messages that left and are not over
};

}  // namespace

std::unique_ptr<Wire> make_packet_wire(Fabric& fabric, const Scenario& scenario, const Roles& roles,
                                       std::uint64_t seed) {
  return std::make_unique<PacketWire>(fabric, scenario, roles, seed);
}

}  // namespace weir::sim::network
