// Ranks that exchange messages as Open MPI's ob1 does, in outline: one rank a node.
//
//   eager        up to `eager_bytes`: the message is a write; who has not posted the receive yet
//                keeps it
//   rendezvous   RTS ─▶ … match … then
//     reads      the receiver's Scheduler fetches it in chunks [RDRP §3.2], FIN ─▶ the sender
//     push       CTS ─▶ the sender, which writes all of it at once
//
// RTS, CTS and FIN are writes of a flit. What it has not: eager credits, copies, fragments that
// overlap registration; those are the other simulator's, or the transport's own.
//
// Single-threaded.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "rendezvous/scheduler_with_peers.h"
#include "tools/sim/network/adapter.h"
#include "tools/sim/network/traffic.h"
#include "tools/sim/network/workload.h"

namespace weir::sim::network {

class Ob1 final : public Traffic, private Adapter::Client {
 public:
  Ob1(const Scenario& scenario, std::uint64_t seed);

  void begin(Network& network) override;
  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override {
    return adapter_.next(node, kind, room, packet);
  }
  void arrived(NodeId node, const Packet& packet) override;
  void woken(NodeId node) override;
  void soon(NodeId node, const Packet* packet, unsigned stage) const override {
    adapter_.soon(node, packet, stage);
  }
  bool conserved() const override;
  bool over() const override { return received_ == workload_.messages.size(); }
  Messages messages() const override;
  std::uint64_t retried() const override { return adapter_.counts().retried; }
  std::uint64_t failed() const override { return adapter_.counts().failed; }

 private:
  // What a write carries; an operation's context.
  enum class Carries : std::uint16_t { eager, rts, cts, body, fin, chunk };

  struct Progress {
    bool there = false;  // eager message or RTS
    Tick started = 0;
    Tick received = 0;  // 0: not yet
  };

  struct Rank {
    std::unique_ptr<SchedulerWithPeers> scheduler;  // made when it is needed
    std::map<NodeId, PeerId> peers;                 // of the scheduler
    std::multimap<Tick, std::uint32_t> due;
  };

  void landed(const Operation& operation) override;
  void completed(const Operation& operation, bool failed) override;
  void write(NodeId from, NodeId to, std::uint64_t bytes, std::uint32_t message, Carries what);
  void release(std::uint32_t step);
  void enter(std::uint32_t step);
  void start(std::uint32_t message);
  void match(std::uint32_t message);
  void received(std::uint32_t message);
  void fetch(std::uint32_t message);
  void issue(NodeId node);
  void finish(NodeId node);
  bool is_eager(const Message& message) const { return message.bytes <= eager_bytes_; }
  Time time() const { return {static_cast<std::int64_t>(static_cast<double>(now()) * tick_ns_)}; }

  double tick_ns_;
  bool reads_;
  std::uint64_t eager_bytes_;
  Scheduler::Config scheduler_config_;
  Adapter adapter_;
  Workload workload_;
  std::vector<Progress> progress_;  // by message
  std::vector<Rank> ranks_;         // by node
  std::uint64_t received_ = 0;
};

}  // namespace weir::sim::network
