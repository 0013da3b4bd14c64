// The fabric: routers with input buffers, virtual cut-through, credits for each virtual channel.
//
//   node ─▶ input channel ─▶ route ─▶ wait for the output ─▶ crossbar ─▶ link ─▶ next input … ─▶
//   sink
//              ▲                                                │
//              └──────────────── credits ◀──────────────────────┘ when the last flit has left
//
// The head of each input channel is routed and stands in line at its output; an output serves
// whoever waits longest among those whose next buffer has room for the whole packet. The crossbar
// is faster than a link, so an output takes packets ahead; what it has taken is bounded by the
// credits of the next buffer. A node takes one flit a cycle into its memory, a slow one less;
// requests are no load for memory.
//
// A link may lose packets, or be down for a while: what is on it then is lost, and so is what has
// no other way (a switch discards it). Credits come back all the same, as InfiniBand's do, which
// are told as totals. Who sent it has to notice.
//
// Checked while it runs (check_interval): flits and credits are neither lost nor made, the
// endpoints keep their budgets, and somebody moves. A tick is a third of a cycle, so the 2.4x
// crossbar moves 16 flits in 20 ticks exactly.
//
// Single-threaded; nothing outside of it is touched, so many run side by side.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/sim/network/wheel.h"
#include "tools/sim/network/wiring.h"

namespace weir::sim::network {

inline constexpr Tick ticks_a_cycle = 3;

class Network final : private Congestion {
 public:
  struct Config {
    FabricConfig fabric;
    std::vector<std::uint32_t> slowness;  // by node: cycles a flit takes into memory; empty: 1
    Tick check_interval = 3000;
    Tick patience = 150'000;  // without any delivery while packets are under way: stuck
  };

  Network(const Config& config, Endpoints& endpoints, std::uint64_t seed);

  // Plays on to that tick. A violation ends it early.
  void run_until(Tick until);

  // The node may have something to send.
  void kick(NodeId node) { inject(node); }
  // Endpoints::woken(node) at that time.
  void wake(NodeId node, Tick when) { events_.at(when, waking, {node}); }

  Tick now() const { return events_.now(); }
  std::uint32_t nodes() const { return wiring_->nodes(); }
  std::uint64_t events() const { return events_.handled(); }
  std::uint64_t delivered_flits() const { return delivered_flits_; }
  std::uint64_t lost_packets() const { return lost_packets_; }
  std::uint64_t detours() const { return detours_; }
  // Of everything that happened, in its order.
  std::uint64_t trace_hash() const { return trace_; }
  bool idle() const { return under_way_ == 0; }

  // Recounts every flit and every credit.
  bool conserved() const;
  const std::string& violation() const { return violation_; }

 private:
  // In this order within a tick: what gives room comes before what wants it.
  enum Kind : unsigned { outage, credit, crossbar, arrival, delivery, injection, waking, kinds };

  struct Event {
    std::uint32_t subject;
    std::uint32_t detail = 0;
  };

  // An input's virtual channel: a queue of packets, its head perhaps in line at an output. What has
  // to be known of its head when that is served stands here, too, not only in the packet: at
  // thousands of nodes every look elsewhere waits for memory.
  struct alignas(32) Input {
    PacketId head = none;
    PacketId second = none;  // behind the head
    PacketId tail = none;
    std::uint32_t next = none;   // in line behind it, at the same output channel
    std::uint32_t since = 0;     // its place in line, modulo 2^32
    std::uint32_t complete = 0;  // Packet::complete of the head in line, modulo 2^32
    std::uint16_t flits = 0;     // of the packet in line
    std::uint16_t moving = 0;    // flits of the packet that crosses the crossbar
  };

  // An output's virtual channel: four of them are a cache line.
  struct Output {
    std::uint32_t credits : 20 = 0;
    std::uint32_t need : 12 = 0;  // flits of the first in line
    std::uint32_t first = none;
    std::uint32_t last = none;
    std::uint32_t since = 0;  // the first one's place
  };
  struct alignas(64) Outputs {
    std::array<Output, channels> of;
  };

  struct PortState {
    Tick link_free = 0;
    std::int32_t used = 0;     // credits, of all channels
    std::uint8_t waiting = 0;  // channels with somebody in line
    std::uint8_t down = 0;     // outages of its link
    bool crossing = false;
    bool inject_due = false;  // of a node
  };

  std::int32_t queued_flits(Port port) const override { return ports_[port].used; }
  std::uint32_t channel_of(PacketKind kind, std::uint32_t channel) const {
    return channel + (kind == PacketKind::request && request_lanes_ ? data_channels : 0);
  }

  Output& output(std::uint32_t at) { return outputs_[at / channels].of[at % channels]; }
  const Output& output(std::uint32_t at) const { return outputs_[at / channels].of[at % channels]; }
  void add_credits(std::uint32_t at, std::int32_t flits) {
    Output& to = output(at);
    to.credits = (to.credits + static_cast<std::uint32_t>(flits)) & 0xfffffu;
    ports_[at / channels].used -= flits;
  }
  void handle(Kind kind, std::span<const Event> events);
  void act(Kind kind, const Event& event);
  void look_ahead(Kind kind, const Event& event, unsigned stage) const;
  void credited(const Event& event);
  void arrive(PacketId id);
  void offer(std::uint32_t input);
  void arbitrate(Port port);
  void cross(Port port, std::uint32_t output);
  void crossed(Port port, std::uint32_t input);
  void return_credit(std::uint32_t output, std::uint32_t flits);
  void sink(NodeId node, PacketId id, Tick head);
  void deliver(PacketId id);
  void inject(NodeId node);
  void mark(Packet& packet, const Output& output);
  void send(Port port, std::uint32_t channel, PacketId id, std::uint32_t length_flits);
  void check();
  bool down(Port port) const override { return ports_[port].down > 0; }
  bool some_down() const override { return outages_ > 0; }
  void plan_outages(std::uint64_t seed);
  void turn(Port port, bool down);
  void leave_line(Port port);
  void lose(PacketId id);
  void note(Kind kind, const Event& event);
  void fetch_way(PacketId head, std::uint32_t input) const;
  PacketId make_packet();

  Config config_;
  Endpoints& endpoints_;
  std::unique_ptr<Wiring> wiring_;
  Random random_;
  Random loss_random_;
  bool lossy_;
  bool request_lanes_;
  std::vector<Tick> crossing_;  // the crossbar, by flits
  Wheel<Event, kinds> events_;
  std::vector<Packet> packets_;
  std::vector<PacketId> free_;
  std::vector<Input> inputs_;     // port * channels + channel
  std::vector<Outputs> outputs_;  // by port
  std::vector<PortState> ports_;
  std::vector<Tick> sink_free_;  // by node
  std::uint32_t line_ = 0;       // numbers in line
  std::uint64_t under_way_ = 0;  // packets
  std::uint64_t injected_flits_ = 0;
  std::uint64_t delivered_flits_ = 0;
  std::uint64_t lost_flits_ = 0;
  std::uint64_t lost_packets_ = 0;
  std::uint64_t detours_ = 0;
  std::uint64_t trace_ = 0;
  std::uint32_t outages_ = 0;  // ports with one now, counted for each
  Tick next_check_ = 0;
  Tick moved_ = 0;  // the last delivery
  std::string violation_;
};

}  // namespace weir::sim::network
