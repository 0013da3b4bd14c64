#include "tools/sim/network/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace weir::sim::network {

Network::Network(const Config& config, Endpoints& endpoints, std::uint64_t seed)
    : config_(config),
      endpoints_(endpoints),
      wiring_(Wiring::make(config.fabric)),
      random_(Random(seed).fork(1)),
      inputs_(wiring_->links().size() * channels),
      outputs_(inputs_.size()),
      ports_(wiring_->links().size()),
      used_(ports_.size()),
      sink_free_(wiring_->nodes()) {
  config_.slowness.resize(wiring_->nodes(), 1);
  for (std::uint32_t flits = 0; flits <= config_.fabric.vc_flits; ++flits) {
    crossing_.push_back(
        static_cast<Tick>(std::ceil(flits * ticks_a_cycle / config_.fabric.crossbar - 1e-9)));
  }
  for (Output& output : outputs_) output.credits = config_.fabric.vc_flits;
  for (NodeId node = 0; node < nodes(); ++node) {
    ports_[wiring_->port_of(node)].inject_due = true;
    // Not all in step: each node's first packet begins somewhere in a packet's time.
    events_.at(static_cast<Tick>(random_.below(48)), injection, {node});
  }
  next_check_ = config_.check_interval;
}

void Network::run_until(Tick until) {
  while (violation_.empty() && now() < until) {
    events_.run_until(std::min(until, next_check_), [this](unsigned kind, const Event& event) {
      act(static_cast<Kind>(kind), event);
    });
    if (now() < next_check_) continue;
    next_check_ += config_.check_interval;
    check();
  }
}

void Network::check() {
  const auto cycle = [](Tick tick) { return tick / ticks_a_cycle; };
  if (!conserved()) {
    violation_ = fmt::format("flits or credits are lost or made by cycle {}", cycle(now()));
  } else if (!endpoints_.conserved()) {
    violation_ =
        fmt::format("what the endpoints keep account of does not add up by cycle {}", cycle(now()));
  } else if (!idle() && now() - moved_ > config_.patience) {
    violation_ = fmt::format("no progress since cycle {}, with {} packets under way", cycle(moved_),
                             packets_.count());
  }
  if (idle()) moved_ = now();
}

void Network::act(Kind kind, const Event& event) {
  trace_ = (trace_ ^ static_cast<std::uint64_t>(now()) ^
            (std::uint64_t{event.subject} << 32u | event.detail << 3u | kind)) *
           0x9e3779b97f4a7c15ull;
  trace_ ^= trace_ >> 29u;
  switch (kind) {
    case credit: return credited(event.subject, event.detail);
    case crossbar: return crossed(event.subject, event.detail);
    case arrival: return arrive(event.subject);
    case delivery: return deliver(event.subject);
    case injection:
      ports_[wiring_->port_of(event.subject)].inject_due = false;
      return inject(event.subject);
    case waking:
    case kinds: return endpoints_.woken(event.subject);
  }
}

void Network::credited(std::uint32_t output, std::uint32_t flits) {
  add_credits(output, flits);
  const Port port = output / channels;
  if (port >= wiring_->router_ports()) {
    inject(port - wiring_->router_ports());
  } else if (!ports_[port].crossing) {
    arbitrate(port);
  }
}

// Onto the link of `port`, whose next buffer has room.
void Network::send(Port port, std::uint32_t channel, PacketId id) {
  Packet& packet = packets_[id];
  PortState& state = ports_[port];
  const Link& link = wiring_->links()[port];
  add_credits(port * channels + channel, 0u - packet.flits);
  const Tick begin = std::max(now(), state.link_free);
  const Tick length = packet.flits * ticks_a_cycle;
  state.link_free = begin + length;
  const Tick head = begin + link.cycles * ticks_a_cycle;
  packet.complete = head + length;
  packet.input = link.peer * channels + channel;
  if (link.peer >= wiring_->router_ports()) {
    sink(link.peer - wiring_->router_ports(), id, head);  // nobody overtakes it any more
  } else {
    events_.at(head, arrival, {id});
  }
}

void Network::inject(NodeId node) {
  const Port port = wiring_->port_of(node);
  PortState& state = ports_[port];
  if (state.inject_due) return;
  for (PacketKind kind : {PacketKind::request, PacketKind::data}) {
    const std::uint32_t channel = channel_of(kind, 0);
    const std::uint32_t room = outputs_[port * channels + channel].credits;
    Packet packet;
    if (room == 0 || !endpoints_.next(node, kind, room, packet)) continue;
    packet.kind = kind;
    packet.source = node;
    packet.born = now();
    injected_flits_ += packet.flits;
    send(port, channel, packets_.add(packet));
    state.inject_due = true;
    events_.at(state.link_free, injection, {node});
    return;
  }
}

void Network::arrive(PacketId id) {
  Packet& packet = packets_[id];
  const std::uint32_t at = packet.input;
  Input& input = inputs_[at];
  packet.next = none;
  if (input.head == none) {
    input.head = input.tail = id;
    if (input.moving == 0) offer(at);
  } else {
    packets_[input.tail].next = id;
    input.tail = id;
  }
}

// Routes the head of an input channel and puts it in line.
void Network::offer(std::uint32_t at) {
  Input& input = inputs_[at];
  Packet& packet = packets_[input.head];
  const Hop hop = wiring_->route(at / channels, packet, used_, random_);
  const std::uint32_t channel = channel_of(packet.kind, hop.channel);
  input.next = none;
  input.since = ++line_;
  Output& output = outputs_[hop.port * channels + channel];
  if (output.first == none) {
    output.first = at;
    ports_[hop.port].waiting |= static_cast<std::uint8_t>(1u << channel);
  } else {
    inputs_[output.last].next = at;
  }
  output.last = at;
  if (!ports_[hop.port].crossing) arbitrate(hop.port);
}

// Serves whoever waits longest among those whose next buffer has room.
void Network::arbitrate(Port port) {
  std::uint32_t best = none;
  std::uint32_t longest = 0;  // so many numbers ago
  for (unsigned left = ports_[port].waiting; left != 0; left &= left - 1) {
    const std::uint32_t at = port * channels + static_cast<std::uint32_t>(std::countr_zero(left));
    const Output& output = outputs_[at];
    const Input& first = inputs_[output.first];
    const std::uint32_t ago = line_ - first.since;
    if ((best == none || ago > longest) && output.credits >= packets_[first.head].flits) {
      longest = ago;
      best = at;
    }
  }
  if (best != none) cross(port, best);
}

void Network::cross(Port port, std::uint32_t at) {
  Output& output = outputs_[at];
  const std::uint32_t from = output.first;
  Input& input = inputs_[from];
  const PacketId id = input.head;
  Packet& packet = packets_[id];
  output.first = input.next;
  if (output.first == none) {
    ports_[port].waiting &= static_cast<std::uint8_t>(~(1u << at % channels));
  }
  input.head = packet.next;
  input.moving = packet.flits;
  ports_[port].crossing = true;
  if (config_.fabric.marking > 0) mark(packet, output);
  // Cut-through: bytes that have not arrived cannot leave.
  const Tick missing = packet.complete - now();
  send(port, at % channels, id);
  events_.at(now() + std::max(crossing_[input.moving], missing), crossbar, {port, from});
}

// FECN, by how full the next buffer is.
void Network::mark(Packet& packet, const Output& output) {
  if (packet.kind != PacketKind::data) return;
  const double capacity = config_.fabric.vc_flits;
  const double full = (capacity - output.credits) / capacity;
  const double chance = config_.fabric.marking * (2 * full - 1);
  if (chance > 0 && static_cast<double>(random_.below(1 << 20)) < chance * (1 << 20)) {
    packet.marked = true;
  }
}

void Network::crossed(Port port, std::uint32_t from) {
  Input& input = inputs_[from];
  const std::uint32_t flits = input.moving;
  input.moving = 0;
  ports_[port].crossing = false;
  return_credit(from, flits);
  if (input.head != none) offer(from);
  if (!ports_[port].crossing) arbitrate(port);
}

// The node has the packet's head at that time.
void Network::sink(NodeId node, PacketId id, Tick head) {
  const Packet& packet = packets_[id];
  Tick done = packet.complete;
  if (packet.kind == PacketKind::data) {
    const Tick begin = std::max(head, sink_free_[node]);
    done = begin + packet.flits * ticks_a_cycle * config_.slowness[node];
    sink_free_[node] = done;
  }
  events_.at(done, delivery, {id});
}

void Network::deliver(PacketId id) {
  const Packet packet = packets_[id];
  return_credit(packet.input, packet.flits);
  delivered_flits_ += packet.flits;
  moved_ = now();
  packets_.remove(id);
  endpoints_.arrived(packet.target, packet);
}

bool Network::conserved() const {
  // For each link and channel: free, on the way, buffered, or on the way back.
  std::vector<std::int64_t> flits(inputs_.size());  // by the input at the link's far end
  std::uint64_t packets = 0;
  std::uint64_t under_way_flits = 0;
  const auto count = [&](PacketId id) {
    flits[packets_[id].input] += packets_[id].flits;
    under_way_flits += packets_[id].flits;
    ++packets;
  };
  events_.for_each([&](unsigned kind, const Event& event) {
    if (kind == arrival || kind == delivery) {
      count(event.subject);
    } else if (kind == credit) {
      const Link& link = wiring_->links()[event.subject / channels];
      flits[link.peer * channels + event.subject % channels] += event.detail;
    }
  });
  for (std::uint32_t at = 0; at < inputs_.size(); ++at) {
    for (PacketId id = inputs_[at].head; id != none; id = packets_[id].next) count(id);
    flits[at] += inputs_[at].moving;
  }
  if (packets != packets_.count() || injected_flits_ - delivered_flits_ != under_way_flits)
    return false;
  const std::int64_t capacity = config_.fabric.vc_flits;
  for (Port port = 0; port < ports_.size(); ++port) {
    std::int64_t used = 0;
    for (std::uint32_t channel = 0; channel < channels; ++channel) {
      const std::int64_t credits = outputs_[port * channels + channel].credits;
      const Port peer = wiring_->links()[port].peer;
      const std::int64_t there = peer == none ? 0 : flits[peer * channels + channel];
      if (credits > capacity || credits + there != capacity) return false;
      used += capacity - credits;
    }
    if (used != used_[port]) return false;
  }
  return true;
}

}  // namespace weir::sim::network
