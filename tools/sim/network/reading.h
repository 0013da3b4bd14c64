// Receivers that fetch their data themselves, with RDMA reads [RDRP §3.2]. What is read when, and
// how much at a time, is decided by rendezvous/scheduler.h and rendezvous/budget_controller.h, the
// objects that the transport uses; where processes of a node share a budget, by the pool of
// flowctl/shared/token_pool.h. Here is only what hands chunks to an adapter, and completions back.
//
//   Scheduler::next ─▶ Adapter::post ─▶ request, packets ─▶ completed ─▶ Scheduler::on_chunk_done
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "rendezvous/scheduler_with_peers.h"
#include "tools/sim/host.h"
#include "tools/sim/network/adapter.h"
#include "tools/sim/network/traffic.h"

namespace weir::sim::network {

class Reading final : public Traffic, private Adapter::Client {
 public:
  Reading(const Scenario& scenario, const Roles& roles);

  void begin(Network& network) override;
  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override {
    return adapter_.next(node, kind, room, packet);
  }
  void arrived(NodeId node, const Packet& packet) override;
  void woken(NodeId node) override { adapter_.woken(node); }
  void soon(NodeId node, const Packet* packet, unsigned stage) const override;
  bool conserved() const override;
  double mean_reads() const override;
  std::uint64_t retried() const override { return adapter_.counts().retried; }
  std::uint64_t failed() const override { return adapter_.counts().failed; }

 private:
  // What the processes of a node share.
  struct Shared {
    Host host;
    std::deque<Host::Door> doors;
  };

  // A receiver. Its schedulers are neighbours: one a process, or one a transfer.
  struct Node {
    std::vector<NodeId> sources;  // of scheduler i: i, i + schedulers, …
    std::uint32_t first = 0;
    std::uint32_t schedulers = 0;
    std::unique_ptr<Shared> shared;
  };

  void completed(const Operation& operation, bool failed) override;
  Time time() const { return {static_cast<std::int64_t>(static_cast<double>(now()) * tick_ns_)}; }
  void add_scheduler(Node& node, const Scheduler::Config& config);
  void submit(Node& node, std::uint32_t source);
  void post(NodeId node, std::uint32_t scheduler);
  void post_waiting(NodeId node);
  bool has_tokens(const Node& node) const;

  double tick_ns_;
  std::uint64_t chunk_bytes_;
  Adapter adapter_;
  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<SchedulerWithPeers>> schedulers_;
};

}  // namespace weir::sim::network
