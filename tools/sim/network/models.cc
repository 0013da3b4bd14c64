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
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "rendezvous/scheduler_with_peers.h"
#include "tools/sim/network/adapter.h"
#include "tools/sim/network/traffic.h"
#include "tools/sim/steps.h"

namespace weir::sim::network {
namespace {

constexpr std::uint64_t header_bytes = 64;

class Models final : public Traffic, private Adapter::Client, private Steps::Mover {
 public:
  Models(const Scenario& scenario, Workload workload)
      : Traffic(scenario.fabric.topology.nodes()),
        scenario_(scenario),
        streams_(!ends(scenario.pattern)),
        tick_ns_(scenario.cycle_ns / ticks_a_cycle),
        adapter_(scenario.fabric.topology.nodes(), *this),
        steps_(std::move(workload), *this),
        ranks_(scenario.fabric.topology.nodes()) {}

  void begin(Network& network) override {
    Traffic::begin(network);
    adapter_.begin(network);
    if (!streams_) return steps_.begin();
    for (MessageId id = 0; id < steps_.workload().messages.size(); ++id) submit(id);
    for (NodeId node = 0; node < ranks_.size(); ++node) {
      for (std::size_t i = 0; i < ranks_[node].schedulers.size(); ++i) issue(node, i);
    }
  }

  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override {
    return adapter_.next(node, kind, room, packet);
  }
  void arrived(NodeId node, const Packet& packet) override {
    if (packet.kind == PacketKind::data) count(node, packet);
    adapter_.arrived(node, packet);
  }

  void woken(NodeId node) override {
    auto& due = ranks_[node].due;
    for (; !due.empty() && due.begin()->first <= now(); due.erase(due.begin())) {
      steps_.due(due.begin()->second);
    }
    steps_.take();
  }

  bool conserved() const override {
    std::uint64_t outstanding = 0;
    for (const Rank& rank : ranks_) {
      for (const auto& scheduler : rank.schedulers) {
        if (!scheduler->conserved()) return false;
        outstanding += scheduler->reads().chunks();
      }
    }
    return !broken_ && outstanding == adapter_.under_way(Verb::read);
  }

  bool over() const override { return !streams_ && steps_.all_received(); }

  void tell(Values& values) const override {
    std::uint64_t reads = 0;
    std::uint64_t receivers = 0;
    for (const Rank& rank : ranks_) {
      receivers += rank.schedulers.empty() ? 0 : 1;
      for (const auto& scheduler : rank.schedulers) reads += scheduler->reads().chunks();
    }
    values.emplace_back("reads", static_cast<double>(reads) /
                                     static_cast<double>(std::max<std::uint64_t>(receivers, 1)));
    if (streams_) return;
    values.emplace_back("messages", static_cast<double>(steps_.workload().messages.size()));
    values.emplace_back("received", static_cast<double>(steps_.received_count()));
    const auto us = [&](std::int64_t ticks) {
      return static_cast<double>(ticks) * tick_ns_ / 1'000;
    };
    values.emplace_back("finished_us", over() ? us(steps_.last_received()) : 0);
    std::vector<double> latencies;
    for (const std::int64_t ticks : steps_.latencies()) latencies.push_back(us(ticks));
    add_latencies(std::move(latencies), values);
  }

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
  void landed(const Operation& operation) override {
    const auto id = static_cast<MessageId>(operation.token);
    switch (static_cast<Carries>(operation.context)) {
      case Carries::eager:
      case Carries::rts: steps_.arrived(id); break;
      case Carries::cts:
        write(message(id).source, message(id).target, message(id).bytes, id, Carries::body);
        break;
      case Carries::body: steps_.received(id); break;
      case Carries::fin: steps_.sent(id); break;
    }
    steps_.take();
  }

  void completed(const Operation& operation) override {
    if (operation.verb == Verb::write) {
      const auto what = static_cast<Carries>(operation.context);
      if (what != Carries::eager && what != Carries::body) return;
      steps_.sent(static_cast<MessageId>(operation.token));
      return steps_.take();
    }
    const NodeId node = operation.node;
    SchedulerWithPeers& scheduler = *ranks_[node].schedulers[operation.context];
    const auto took = static_cast<double>(adapter_.age(operation)) * tick_ns_;
    scheduler.on_chunk_done(time(), static_cast<TransferId>(operation.token), operation.bytes,
                            {static_cast<std::int64_t>(took)});
    issue(node, operation.context);
    FinishedTransfer finished;
    while (scheduler.next_finished(finished)) {
      const auto id = static_cast<MessageId>(finished.token);
      write(node, message(id).source, header_bytes, id, Carries::fin);
      steps_.received(id);
    }
    steps_.take();
  }

  // Steps::Mover
  std::int64_t now() const override { return Traffic::now(); }

  bool may_enter(StepId id) override {
    const Step& step = steps_.workload().steps[id];
    const auto work = static_cast<Tick>(step.work_cycles) * ticks_a_cycle;
    const Tick when = std::max(now() + work, static_cast<Tick>(step.not_before) * ticks_a_cycle);
    if (when <= now()) return true;
    ranks_[step.node].due.emplace(when, id);
    network().wake(step.node, when);
    return false;
  }

  void send(MessageId id) override {
    const Message& sent = message(id);
    const bool eager = is_eager(sent);
    write(sent.source, sent.target, header_bytes + (eager ? sent.bytes : 0), id,
          eager ? Carries::eager : Carries::rts);
  }

  void match(MessageId id) override {
    const Message& here = message(id);
    if (is_eager(here)) return steps_.received(id);
    if (scenario_.protocol == Protocol::push) {
      return write(here.target, here.source, header_bytes, id, Carries::cts);
    }
    submit(id);
    issue(here.target, 0);
  }

  void violation(const char*) override { broken_ = true; }

  const Message& message(MessageId id) const { return steps_.workload().messages[id]; }
  bool is_eager(const Message& message) const { return message.bytes <= scenario_.eager_bytes; }

  void write(NodeId from, NodeId to, std::uint64_t bytes, MessageId id, Carries what) {
    adapter_.post(from, to, Verb::write, static_cast<std::uint32_t>(bytes), id,
                  static_cast<std::uint16_t>(what));
  }

  void submit(MessageId id) {
    const Message& wanted = message(id);
    Rank& rank = ranks_[wanted.target];
    if (rank.schedulers.empty() || scenario_.budget_of == BudgetOf::transfer) {
      rank.schedulers.push_back(std::make_unique<SchedulerWithPeers>(scheduler_config(scenario_)));
    }
    SchedulerWithPeers& scheduler = *rank.schedulers.back();
    const auto [at, is_new] =
        rank.peers.emplace(wanted.source, PeerId{static_cast<std::uint32_t>(rank.peers.size())});
    if (is_new) scheduler.open_peer(at->second, ChunkBudget::no_limit);
    scheduler.submit({.kind = TransferKind::get,
                      .peer = at->second,
                      .remote_address = 0,
                      .local_address = 0,
                      .length_bytes = wanted.bytes,
                      .token = id});
  }

  void issue(NodeId node, std::size_t place) {
    SchedulerWithPeers& scheduler = *ranks_[node].schedulers[place];
    Chunk chunk;
    while (scheduler.next(chunk)) {
      const auto id = static_cast<MessageId>(scheduler.request(chunk.transfer).token);
      adapter_.post(node, message(id).source, Verb::read, chunk.length_bytes,
                    static_cast<std::uint64_t>(chunk.transfer), static_cast<std::uint16_t>(place));
    }
  }

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

}  // namespace

std::unique_ptr<Traffic> make_models(const Scenario& scenario, Workload workload) {
  return std::make_unique<Models>(scenario, std::move(workload));
}

}  // namespace weir::sim::network
