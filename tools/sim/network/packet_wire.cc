#include "tools/sim/network/packet_wire.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tools/sim/network/scenario.h"

namespace weir::sim::network {
namespace {

std::size_t lane(PacketKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

PacketWire::PacketWire(Fabric& fabric, const Config& config, std::uint64_t seed)
    : fabric_(fabric),
      cycle_ps_(std::llround(config.cycle_ns * 1'000)),
      places_(config.places),
      network_(config.network, *this, seed),
      turns_(network_.nodes()) {}

Tick PacketWire::tick_at(Time time) const {
  const std::int64_t tick_of_1000_cycles = 1'000 * ticks_a_cycle;
  return (time.ns * tick_of_1000_cycles + cycle_ps_ - 1) / cycle_ps_;
}

Time PacketWire::time_of(Tick tick) const { return {tick * cycle_ps_ / (1'000 * ticks_a_cycle)}; }

Wire::Stream PacketWire::open(sim::Node from, sim::Node to) {
  flows_.push_back({places_[from], places_[to], {}, {}});
  return static_cast<Stream>(flows_.size() - 1);
}

PacketWire::MessageId PacketWire::add(Stream stream, Kind kind, std::uint32_t bytes) {
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

void PacketWire::send(Stream stream, Kind kind, std::uint32_t bytes, Action arrive) {
  const MessageId id = add(stream, kind, bytes);
  messages_[id].arrive = std::move(arrive);
  leave(id);
}

void PacketWire::send_at(Time leaves, Stream stream, Kind kind, std::uint32_t bytes, Load load) {
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

void PacketWire::leave(MessageId id) {
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

bool PacketWire::next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) {
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

void PacketWire::arrived(NodeId, const Packet& packet) { account(packet, false); }

void PacketWire::account(const Packet& packet, bool lost) {
  Message& message = messages_[packet.number];
  message.missing_flits -= packet.flits;
  message.harmed |= lost;
  if (message.missing_flits > 0) return;
  --under_way_;
  end(packet.number);
}

// It is all there, or never will be: it goes up, with those that waited for it.
void PacketWire::end(MessageId id) {
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

void PacketWire::catch_up() {
  while (under_way_ > 0 && time_of(network_.now()) < fabric_.events.next()) {
    network_.run_until(network_.now() + 1);
    if (network_.violation().empty()) continue;
    return fabric_.violation("the packet-level fabric: " + network_.violation());
  }
}

// Every message is in its place.
bool PacketWire::conserved() const {
  std::uint64_t waiting = 0;
  for (const Flow& flow : flows_) waiting += flow.order.size();
  return waiting + free_.size() == messages_.size() && under_way_ <= waiting;
}

bool PacketWire::adds_up() const {
  return network_.violation().empty() && network_.conserved() && conserved() &&
         (under_way_ > 0 || network_.idle());
}

Wire::Counts PacketWire::counts() const {
  return {.messages = handed_over_,
          .delivered_flits = network_.delivered_flits(),
          .lost_packets = network_.lost_packets(),
          .events = network_.events(),
          .detours = network_.detours(),
          .hash = network_.trace_hash()};
}

}  // namespace weir::sim::network
