// Receivers that fetch their data themselves, with RDMA reads [RDRP §3.2]. What is read when, and
// how much at a time, is decided by rendezvous/scheduler.h and rendezvous/budget_controller.h, the
// objects that the transport uses; here is only what an adapter does: requests out, responses back
// packet by packet, completions.
//
//   Scheduler::next ─▶ request packet (one flit) ─▶ source's adapter ─▶ packets of the chunk
//   Scheduler::on_chunk_done ◀─ all of them are in memory ◀──────────────────┘
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "rendezvous/scheduler.h"
#include "tools/sim/network/traffic.h"

namespace weir::sim::network {

class Reading final : public Traffic {
 public:
  Reading(const Scenario& scenario, const Roles& roles);

  void begin(Network& network) override;
  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override;
  void arrived(NodeId node, const Packet& packet) override;
  bool conserved() const override;
  double mean_reads() const override;

  // What the transport would be given for that scenario.
  static Scheduler::Config scheduler_config(const Scenario& scenario);

 private:
  // A chunk that is outstanding.
  struct Read {
    TransferId transfer = TransferId::none;
    std::uint32_t scheduler = 0;
    std::uint32_t bytes = 0;
    std::uint32_t missing_flits = 0;
    NodeId source = 0;
    Tick posted = 0;
  };

  // What a source still has to send for a request.
  struct Response {
    NodeId reader = 0;
    std::uint32_t read = 0;
    std::uint32_t flits = 0;
  };

  struct Node {
    std::vector<NodeId> sources;
    std::vector<std::unique_ptr<Scheduler>> schedulers;  // one for all, or one for each source
    std::vector<Read> reads;
    std::vector<std::uint32_t> free_reads;
    std::deque<std::uint32_t> requests;  // reads whose request has not left
    std::deque<Response> responses;
  };

  Time time() const { return {static_cast<std::int64_t>(static_cast<double>(now()) * tick_ns_)}; }
  void submit(Node& node, std::uint32_t source);
  void post(Node& node, std::uint32_t scheduler);

  double tick_ns_;
  BudgetOf budget_of_;
  std::vector<Node> nodes_;
};

}  // namespace weir::sim::network
