// The fabric: routers with input buffers, virtual cut-through, credits for each virtual channel.
//
// The head of each input channel is routed and stands in line at its output; an output serves
// whoever waits longest among those whose next buffer has room for the whole packet. The crossbar
// is faster than a link, so an output takes packets ahead; what it has taken is bounded by the
// credits of the next buffer. A node takes one flit a cycle into its memory, a slow one less;
// requests are no load for memory.
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
#include <string>
#include <vector>

#include "tools/sim/network/wheel.h"
#include "tools/sim/network/wiring.h"

namespace weir::sim::network {

inline constexpr Tick ticks_a_cycle = 3;

class Network {
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
  // Of everything that happened, in its order.
  std::uint64_t trace_hash() const { return trace_; }
  bool idle() const { return packets_.count() == 0; }

  // Recounts every flit and every credit.
  bool conserved() const;
  const std::string& violation() const { return violation_; }

 private:
  // In this order within a tick: what gives room comes before what wants it. They are in the hash.
  enum Kind : unsigned { credit = 1, crossbar, arrival, delivery, injection, waking, kinds };

  struct Event {
    std::uint32_t subject;
    std::uint32_t detail = 0;
  };

  // An input's virtual channel: a queue of packets, its head perhaps in line at an output.
  struct Input {
    PacketId head = none;
    PacketId tail = none;
    std::uint32_t next = none;   // in line behind it, at the same output channel
    std::uint32_t since = 0;     // its place in line, modulo 2^32
    std::uint32_t moving = 0;    // flits of the packet that crosses the crossbar
  };

  // An output's virtual channel.
  struct Output {
    std::uint32_t credits = 0;
    std::uint32_t first = none;  // in line
    std::uint32_t last = none;
  };

  struct PortState {
    Tick link_free = 0;
    std::uint8_t waiting = 0;  // channels with somebody in line
    bool crossing = false;
    bool inject_due = false;  // of a node
  };

  static std::uint32_t channel_of(PacketKind kind, std::uint32_t channel) {
    return channel + (kind == PacketKind::request ? data_channels : 0);
  }
  void add_credits(std::uint32_t output, std::uint32_t flits) {
    outputs_[output].credits += flits;
    used_[output / channels] -= static_cast<std::int32_t>(flits);
  }
  void act(Kind kind, const Event& event);
  void credited(std::uint32_t output, std::uint32_t flits);
  void arrive(PacketId id);
  void offer(std::uint32_t input);
  void arbitrate(Port port);
  void cross(Port port, std::uint32_t output);
  void crossed(Port port, std::uint32_t input);
  // `flits` of an input channel are free; whoever feeds it hears a link later.
  void return_credit(std::uint32_t at, std::uint32_t flits) {
    const Link& link = wiring_->links()[at / channels];
    events_.at(now() + link.cycles * ticks_a_cycle, credit,
               {link.peer * channels + at % channels, flits});
  }
  void sink(NodeId node, PacketId id, Tick head);
  void deliver(PacketId id);
  void inject(NodeId node);
  void mark(Packet& packet, const Output& output);
  void send(Port port, std::uint32_t channel, PacketId id);
  void check();

  Config config_;
  Endpoints& endpoints_;
  std::unique_ptr<Wiring> wiring_;
  Random random_;
  std::vector<Tick> crossing_;  // the crossbar, by flits
  Wheel<Event, kinds> events_;
  Numbered<Packet> packets_;
  std::vector<Input> inputs_;    // port * channels + channel
  std::vector<Output> outputs_;  // the same
  std::vector<PortState> ports_;
  Queued used_;                  // credits of all channels, by port
  std::vector<Tick> sink_free_;  // by node
  std::uint32_t line_ = 0;       // numbers in line
  std::uint64_t injected_flits_ = 0;
  std::uint64_t delivered_flits_ = 0;
  std::uint64_t trace_ = 0;
  Tick next_check_ = 0;
  Tick moved_ = 0;  // the last delivery
  std::string violation_;
};

}  // namespace weir::sim::network
