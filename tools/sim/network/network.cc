#include "tools/sim/network/network.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace weir::sim::network {

Network::Network(const Config& config, Endpoints& endpoints, std::uint64_t seed)
    : config_(config),
      endpoints_(endpoints),
      wiring_(Wiring::make(config.fabric)),
      random_(Random(seed).fork(1)),
      loss_random_(Random(seed).fork(6)),
      lossy_(config.fabric.lossy()),
      request_lanes_(config.fabric.switching.request_lanes),
      inputs_(wiring_->links().size() * channels),
      outputs_(wiring_->links().size()),
      ports_(wiring_->links().size()),
      sink_free_(wiring_->nodes()) {
  config_.slowness.resize(wiring_->nodes(), 1);
  for (std::uint32_t flits = 0; flits <= config_.fabric.switching.vc_flits; ++flits) {
    crossing_.push_back(static_cast<Tick>(
        std::ceil(flits * ticks_a_cycle / config_.fabric.switching.crossbar - 1e-9)));
  }
  for (Outputs& outputs : outputs_) {
    for (Output& output : outputs.of) {
      output.credits = config_.fabric.switching.vc_flits & 0xfffffu;
    }
  }
  for (NodeId node = 0; node < nodes(); ++node) {
    ports_[wiring_->port_of(node)].inject_due = true;
    // Not all in step: each node's first packet begins somewhere in a packet's time.
    events_.at(static_cast<Tick>(random_.below(48)), injection, {node});
  }
  next_check_ = config_.check_interval;
  plan_outages(seed);
}

void Network::plan_outages(std::uint64_t seed) {
  Random random = Random(seed).fork(7);
  for (const Outage& planned : config_.fabric.outages) {
    std::vector<Port> links = wiring_->trunks();
    for (std::uint32_t i = 0; i < planned.links && !links.empty(); ++i) {
      const std::size_t which = random.below(links.size());
      for (const Port port : {links[which], wiring_->links()[links[which]].peer}) {
        events_.at(static_cast<Tick>(planned.from_cycles) * ticks_a_cycle, outage, {port, 1});
        events_.at(static_cast<Tick>(planned.to_cycles) * ticks_a_cycle, outage, {port, 0});
      }
      links[which] = links.back();
      links.pop_back();
    }
  }
}

void Network::turn(Port port, bool down) {
  if (!down) {
    --ports_[port].down;
    --outages_;
    if (port >= wiring_->router_ports()) inject(port - wiring_->router_ports());
    return;
  }
  ++ports_[port].down;
  ++outages_;
  leave_line(port);
}

// Whoever is in line there has to find another way.
void Network::leave_line(Port port) {
  for (std::uint32_t at = port * channels; at < (port + 1) * channels; ++at) {
    std::uint32_t input = std::exchange(output(at).first, none);
    output(at).last = none;
    while (input != none) {
      const std::uint32_t next = inputs_[input].next;
      offer(input);
      input = next;
    }
  }
  ports_[port].waiting = 0;
}

// It will not arrive.
void Network::lose(PacketId id) {
  const Packet packet = packets_[id];
  return_credit(packet.input, packet.flits);
  lost_flits_ += packet.flits;
  ++lost_packets_;
  --under_way_;
  moved_ = now();
  free_.push_back(id);
  endpoints_.lost(packet);
}

void Network::run_until(Tick until) {
  while (violation_.empty() && now() < until) {
    events_.run_until(std::min(until, next_check_),
                      [this](unsigned kind, std::span<const Event> events) {
                        handle(static_cast<Kind>(kind), events);
                      });
    if (now() < next_check_) continue;
    next_check_ += config_.check_interval;
    check();
  }
}

void Network::check() {
  if (!conserved()) {
    violation_ =
        "flits or credits are lost or made by cycle " + std::to_string(now() / ticks_a_cycle);
  } else if (!endpoints_.conserved()) {
    violation_ = "what the endpoints keep account of does not add up by cycle " +
                 std::to_string(now() / ticks_a_cycle);
  } else if (under_way_ > 0 && now() - moved_ > config_.patience) {
    violation_ = "no progress since cycle " + std::to_string(moved_ / ticks_a_cycle) + ", with " +
                 std::to_string(under_way_) + " packets under way";
  }
  if (under_way_ == 0) moved_ = now();
}

void Network::note(Kind kind, const Event& event) {
  trace_ = (trace_ ^ static_cast<std::uint64_t>(now()) ^
            (std::uint64_t{event.subject} << 32u | event.detail << 3u | kind)) *
           0x9e3779b97f4a7c15ull;
  trace_ ^= trace_ >> 29u;
}

void Network::handle(Kind kind, std::span<const Event> events) {
  // Before its turn comes an event's memory is fetched, then what that points to, and so on: at
  // 5,256 nodes a run is mostly waiting for memory, and takes 1.5 times as long without that.
  constexpr std::size_t step = 8;
  constexpr unsigned stages = 3;
  for (std::size_t i = 0; i < events.size() + stages * step; ++i) {
    for (unsigned stage = 0; stage < stages; ++stage) {
      const std::size_t at = i - stage * step;
      if (at < events.size()) look_ahead(kind, events[at], stage);
    }
    const std::size_t at = i - stages * step;
    if (at < events.size()) act(kind, events[at]);
  }
}

void Network::act(Kind kind, const Event& event) {
  note(kind, event);
  switch (kind) {
    case credit: return credited(event);
    case crossbar: return crossed(event.subject, event.detail);
    case arrival: return arrive(event.subject);
    case delivery: return deliver(event.subject);
    case injection:
      ports_[wiring_->port_of(event.subject)].inject_due = false;
      return inject(event.subject);
    case outage: return turn(event.subject, event.detail != 0);
    case waking:
    case kinds: return endpoints_.woken(event.subject);
  }
}

namespace {

template <typename T>
void fetch(const T* what) {
  __builtin_prefetch(what, 1);
}

}  // namespace

void Network::look_ahead(Kind kind, const Event& event, unsigned stage) const {
  if (kind == credit) {
    if (stage == 0) fetch(&output(event.subject));
    const std::uint32_t first = stage == 1 ? output(event.subject).first : none;
    if (first != none) fetch(&inputs_[first]);
  } else if (kind == crossbar) {
    const Input& input = inputs_[event.detail];
    const Outputs& outputs = outputs_[event.subject];
    const unsigned waiting = ports_[event.subject].waiting;
    if (stage == 0) {
      fetch(&input);
      if ((waiting & 0x0fu) != 0) fetch(&outputs.of[0]);
      if ((waiting & 0xf0u) != 0) fetch(&outputs.of[data_channels]);
    } else if (stage == 1) {
      if (input.head != none) fetch(&packets_[input.head]);
      for (unsigned left = waiting; left != 0; left &= left - 1) {
        fetch(&inputs_[outputs.of[static_cast<std::uint32_t>(std::countr_zero(left))].first]);
      }
    } else if (input.head != none) {
      fetch_way(input.head, event.detail);
    }
  } else if (kind == arrival) {
    const Packet& packet = packets_[event.subject];
    if (stage == 0) fetch(&packet);
    if (stage == 1) fetch(&inputs_[packet.input]);
    if (stage < 2) return;
    const PacketId tail = inputs_[packet.input].tail;
    if (tail != none) return fetch(&packets_[tail]);
    fetch_way(event.subject, packet.input);
  } else if (stage == 0 && kind == delivery) {
    fetch(&packets_[event.subject]);
  } else if (stage == 0 && kind == injection) {
    fetch(&outputs_[wiring_->port_of(event.subject)]);
  }
}

// The output that the packet will most likely stand in line at.
void Network::fetch_way(PacketId head, std::uint32_t input) const {
  const Packet& packet = packets_[head];
  const Port in = input / channels;
  if (in >= wiring_->router_ports()) return;
  const Hop hop = wiring_->shortest(in, packet);
  fetch(&outputs_[hop.port].of[channel_of(packet.kind, hop.channel)]);
}

void Network::credited(const Event& event) {
  add_credits(event.subject, static_cast<std::int32_t>(event.detail));
  const Port port = event.subject / channels;
  if (port >= wiring_->router_ports()) {
    inject(port - wiring_->router_ports());
  } else if (!ports_[port].crossing) {
    arbitrate(port);
  }
}

PacketId Network::make_packet() {
  if (free_.empty()) {
    packets_.emplace_back();
    return static_cast<PacketId>(packets_.size() - 1);
  }
  const PacketId id = free_.back();
  free_.pop_back();
  packets_[id] = {};
  return id;
}

// Onto the link of `port`, whose next buffer has room.
void Network::send(Port port, std::uint32_t channel, PacketId id, std::uint32_t length_flits) {
  Packet& packet = packets_[id];
  PortState& state = ports_[port];
  const Link& link = wiring_->links()[port];
  const auto flits = static_cast<std::int32_t>(length_flits);
  add_credits(port * channels + channel, -flits);
  const Tick begin = std::max(now(), state.link_free);
  const Tick length = length_flits * ticks_a_cycle;
  state.link_free = begin + length;
  const Tick head = begin + link.cycles * ticks_a_cycle;
  packet.complete = head + length;
  packet.input = link.peer * channels + channel;
  if (link.peer >= wiring_->router_ports() && !lossy_) {
    sink(link.peer - wiring_->router_ports(), id, head);  // nobody overtakes it any more
  } else {
    events_.at(head, arrival, {id});
  }
}

void Network::inject(NodeId node) {
  const Port port = wiring_->port_of(node);
  PortState& state = ports_[port];
  if (state.inject_due || state.down > 0) return;
  for (PacketKind kind : {PacketKind::request, PacketKind::data}) {
    const std::uint32_t channel = channel_of(kind, 0);
    const std::uint32_t room = outputs_[port].of[channel].credits;
    Packet packet;
    if (room == 0 || !endpoints_.next(node, kind, room, packet)) {
      continue;
    }
    const PacketId id = make_packet();
    packet.kind = kind;
    packet.source = node;
    packet.born = now();
    packets_[id] = packet;
    ++under_way_;
    injected_flits_ += packet.flits;
    send(port, channel, id, packet.flits);
    state.inject_due = true;
    events_.at(state.link_free, injection, {node});
    return;
  }
}

void Network::arrive(PacketId id) {
  Packet& packet = packets_[id];
  const std::uint32_t at = packet.input;
  const Port port = at / channels;
  const double loss = config_.fabric.loss;
  const bool lost =
      loss > 0 && static_cast<double>(loss_random_.below(1u << 30u)) < loss * (1u << 30u);
  if (lost || ports_[port].down > 0) {
    lose(id);
    return;
  }
  if (port >= wiring_->router_ports()) {
    sink(port - wiring_->router_ports(), id, now());
    return;
  }
  Input& input = inputs_[at];
  packet.next = none;
  if (input.head == none) {
    input.head = input.tail = id;
    input.second = none;
    if (input.moving == 0) offer(at);
  } else {
    if (input.tail == input.head) input.second = id;
    packets_[input.tail].next = id;
    input.tail = id;
  }
}

// Routes the head of an input channel and puts it in line; those that have no way are lost.
void Network::offer(std::uint32_t at) {
  Input& input = inputs_[at];
  Hop hop;
  while (true) {
    Packet& packet = packets_[input.head];
    const std::uint32_t via = packet.via;
    hop = wiring_->route(at / channels, packet, *this, random_);
    if (packet.via != via) ++detours_;
    if (ports_[hop.port].down == 0) break;
    const PacketId next = packet.next;
    lose(input.head);
    input.head = next;
    if (next == none) {
      input.tail = none;
      return;
    }
  }
  const Packet& packet = packets_[input.head];
  const std::uint32_t channel = channel_of(packet.kind, hop.channel);
  input.next = none;
  input.second = packet.next;
  input.complete = static_cast<std::uint32_t>(packet.complete);
  input.flits = packet.flits;
  input.since = ++line_;
  Output& output = outputs_[hop.port].of[channel];
  if (output.first == none) {
    output.first = output.last = at;
    output.need = packet.flits & 0xfffu;
    output.since = input.since;
    ports_[hop.port].waiting |= static_cast<std::uint8_t>(1u << channel);
  } else {
    inputs_[output.last].next = at;
    output.last = at;
  }
  if (!ports_[hop.port].crossing) arbitrate(hop.port);
}

// Serves whoever waits longest among those whose next buffer has room.
void Network::arbitrate(Port port) {
  std::uint32_t best = none;
  std::uint32_t longest = 0;  // so many numbers ago
  for (unsigned left = ports_[port].waiting; left != 0; left &= left - 1) {
    const std::uint32_t at = port * channels + static_cast<std::uint32_t>(std::countr_zero(left));
    const Output& output = this->output(at);
    const std::uint32_t ago = line_ - output.since;
    if ((best == none || ago > longest) && output.credits >= output.need) {
      longest = ago;
      best = at;
    }
  }
  if (best != none) cross(port, best);
}

void Network::cross(Port port, std::uint32_t at) {
  Output& output = this->output(at);
  const std::uint32_t from = output.first;
  Input& input = inputs_[from];
  const PacketId id = input.head;
  const std::uint32_t flits = input.flits;
  output.first = input.next;
  if (output.first == none) {
    output.last = none;
    ports_[port].waiting &= static_cast<std::uint8_t>(~(1u << at % channels));
  } else {
    const Input& next = inputs_[output.first];
    output.need = next.flits & 0xfffu;
    output.since = next.since;
  }
  input.head = input.second;
  if (input.head == none) input.tail = none;
  input.moving = input.flits;
  ports_[port].crossing = true;
  if (config_.fabric.switching.marking > 0) mark(packets_[id], output);
  // Cut-through: what is not there yet cannot leave.
  const Tick missing =
      static_cast<std::int32_t>(input.complete - static_cast<std::uint32_t>(now()));
  send(port, at % channels, id, flits);
  events_.at(now() + std::max(crossing_[flits], missing), crossbar, {port, from});
}

// FECN, by how full the next buffer is.
void Network::mark(Packet& packet, const Output& output) {
  if (packet.kind != PacketKind::data) return;
  const double capacity = config_.fabric.switching.vc_flits;
  const double full = (capacity - output.credits) / capacity;
  const double chance = config_.fabric.switching.marking * (2 * full - 1);
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

// `flits` of an input channel are free; whoever feeds it hears a link later.
void Network::return_credit(std::uint32_t at, std::uint32_t flits) {
  const Link& link = wiring_->links()[at / channels];
  events_.at(now() + link.cycles * ticks_a_cycle, credit,
             {link.peer * channels + at % channels, flits});
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
  --under_way_;
  moved_ = now();
  free_.push_back(id);
  endpoints_.arrived(packet.target, packet);
}

bool Network::conserved() const {
  // For each link and channel: free, on the way, buffered, or on the way back.
  std::vector<std::int64_t> flits(inputs_.size());  // by the input at the link's far end
  std::vector<std::uint32_t> seen;
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
  if (packets != under_way_ || injected_flits_ - delivered_flits_ - lost_flits_ != under_way_flits)
    return false;
  for (Port port = 0; port < ports_.size(); ++port) {
    std::int64_t used = 0;
    for (std::uint32_t channel = 0; channel < channels; ++channel) {
      const std::int64_t credits = outputs_[port].of[channel].credits;
      const Port peer = wiring_->links()[port].peer;
      const std::int64_t there = peer == none ? 0 : flits[peer * channels + channel];
      const std::int64_t capacity = config_.fabric.switching.vc_flits;
      if (credits > capacity || credits + there != capacity) return false;
      used += capacity - credits;
    }
    if (used != ports_[port].used) return false;
  }
  return true;
}

}  // namespace weir::sim::network
