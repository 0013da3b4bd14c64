// Models of adapters whose receivers are the transport's: what is fetched when, and how much at a
// time, is decided by rendezvous/scheduler.h and rendezvous/budget_controller.h. One rank a node.
//
//   streams      a transfer without end from each source, from the start
//   messages     the steps of a workload (steps.h), as Open MPI's ob1 takes them, in outline:
//     eager        up to `eager_bytes`: the message is a write; who has not posted the receive yet
//                  keeps it
//     rendezvous   RTS ─▶ … match … then
//       reads      the receiver's Scheduler fetches it in chunks [RDRP §3.2], FIN ─▶ the sender
//       push       CTS ─▶ the sender, which writes all of it at once
//
//   Scheduler::next ─▶ Adapter::post ─▶ request, packets ─▶ completed ─▶ Scheduler::on_chunk_done
//
// RTS, CTS and FIN are writes of a flit. What it has not: eager credits, copies, fragments that
// overlap registration; all of the core has them (ranks.h, whole_core.h).
//
// Single-threaded.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "rendezvous/scheduler_with_peers.h"
#include "tools/sim/network/adapter.h"
#include "tools/sim/network/traffic.h"
#include "tools/sim/steps.h"

namespace weir::sim::network {

class Models final : public Traffic, private Adapter::Client, private Steps::Mover {
 public:
  Models(const Scenario& scenario, Workload workload);

  void begin(Network& network) override;
  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override {
    return adapter_.next(node, kind, room, packet);
  }
  void arrived(NodeId node, const Packet& packet) override {
    if (packet.kind == PacketKind::data) count(node, packet);
    adapter_.arrived(node, packet);
  }
  void woken(NodeId node) override;
  bool conserved() const override;
  bool over() const override { return !streams_ && steps_.all_received(); }
  void tell(Values& values) const override;

 private:
  // What a write carries; its context. A read's is the place of its scheduler.
  enum class Carries : std::uint16_t { eager, rts, cts, body, fin };

  struct Rank {
    std::vector<std::unique_ptr<SchedulerWithPeers>>
        schedulers;                  // made when needed: one, or one a transfer
    std::map<NodeId, PeerId> peers;  // of the schedulers
    std::multimap<Tick, StepId> due;
  };

  // Adapter::Client
  void landed(const Operation& operation) override;
  void completed(const Operation& operation) override;
  // Steps::Mover
  std::int64_t now() const override { return Traffic::now(); }
  bool may_enter(StepId id) override;
  void send(MessageId id) override;
  void match(MessageId id) override;
  void violation(const char*) override { broken_ = true; }

  const Message& message(MessageId id) const { return steps_.workload().messages[id]; }
  bool is_eager(const Message& message) const { return message.bytes <= scenario_.eager_bytes; }
  void write(NodeId from, NodeId to, std::uint64_t bytes, MessageId id, Carries what);
  void submit(MessageId id);
  void issue(NodeId node, std::size_t scheduler);
  Time time() const {
    return {static_cast<std::int64_t>(static_cast<double>(Traffic::now()) * tick_ns_)};
  }

  Scenario scenario_;
  bool streams_;
  double tick_ns_;
  Adapter adapter_;
  Steps steps_;
  std::vector<Rank> ranks_;  // by node
  bool broken_ = false;
};

}  // namespace weir::sim::network
