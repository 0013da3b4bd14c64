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
#pragma once

#include <array>
#include <vector>

#include "tools/sim/fabric.h"
#include "tools/sim/network/network.h"
#include "tools/sim/network/ring.h"
#include "tools/sim/wire.h"

namespace weir::sim::network {

class PacketWire final : public Wire, private Endpoints {
 public:
  struct Config {
    Network::Config network;
    double cycle_ns = 20;
    std::vector<NodeId> places;  // by process: its node
  };

  PacketWire(Fabric& fabric, const Config& config, std::uint64_t seed);

  Stream open(sim::Node from, sim::Node to) override;
  // The adapter's own work; the link is the network's.
  Duration line_time(std::uint32_t) const override { return fabric_.timing.per_frame; }
  void send(Stream stream, Kind kind, std::uint32_t bytes, Action arrive) override;
  void send_at(Time leaves, Stream stream, Kind kind, std::uint32_t bytes, Load load) override;
  void catch_up() override;
  bool adds_up() const override;
  Counts counts() const override;

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
  Tick tick_at(Time time) const;
  Time time_of(Tick tick) const;
  MessageId add(Stream stream, Kind kind, std::uint32_t bytes);
  void leave(MessageId id);
  void account(const Packet& packet, bool lost);
  void end(MessageId id);

  // Endpoints
  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override;
  void arrived(NodeId node, const Packet& packet) override;
  void lost(const Packet& packet) override { account(packet, true); }
  bool conserved() const override;

  Fabric& fabric_;
  std::int64_t cycle_ps_;
  std::vector<NodeId> places_;
  Network network_;
  std::vector<Flow> flows_;  // by stream
  std::vector<Message> messages_;
  std::vector<MessageId> free_;
  std::vector<std::array<Ring<Stream>, 2>> turns_;  // by node and PacketKind: who has to send
  std::uint64_t handed_over_ = 0;
  std::uint64_t under_way_ = 0;  // messages that left and are not over
};

}  // namespace weir::sim::network
