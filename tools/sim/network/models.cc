#include "tools/sim/network/models.h"

#include <algorithm>
#include <utility>

namespace weir::sim::network {
namespace {

constexpr std::uint64_t header_bytes = 64;

}  // namespace

Models::Models(const Scenario& scenario, Workload workload)
    : Traffic(scenario.fabric.topology.nodes()),
      scenario_(scenario),
      streams_(!ends(scenario.pattern)),
      tick_ns_(scenario.cycle_ns / ticks_a_cycle),
      adapter_(scenario.fabric.topology.nodes(), *this),
      steps_(std::move(workload), *this),
      ranks_(scenario.fabric.topology.nodes()) {}

void Models::begin(Network& network) {
  Traffic::begin(network);
  adapter_.begin(network);
  if (!streams_) return steps_.begin();
  for (MessageId id = 0; id < steps_.workload().messages.size(); ++id) submit(id);
  for (NodeId node = 0; node < ranks_.size(); ++node) {
    for (std::size_t i = 0; i < ranks_[node].schedulers.size(); ++i) issue(node, i);
  }
}

// ---- steps ----

bool Models::may_enter(StepId id) {
  const Step& step = steps_.workload().steps[id];
  const auto work = static_cast<Tick>(step.work_cycles) * ticks_a_cycle;
  const Tick when = std::max(now() + work, static_cast<Tick>(step.not_before) * ticks_a_cycle);
  if (when <= now()) return true;
  ranks_[step.node].due.emplace(when, id);
  network().wake(step.node, when);
  return false;
}

void Models::woken(NodeId node) {
  auto& due = ranks_[node].due;
  for (; !due.empty() && due.begin()->first <= now(); due.erase(due.begin())) {
    steps_.due(due.begin()->second);
  }
  steps_.take();
}

// ---- messages ----

void Models::write(NodeId from, NodeId to, std::uint64_t bytes, MessageId id, Carries what) {
  adapter_.post(from, to, Verb::write, static_cast<std::uint32_t>(bytes), id,
                static_cast<std::uint16_t>(what));
}

void Models::send(MessageId id) {
  const Message& sent = message(id);
  const bool eager = is_eager(sent);
  write(sent.source, sent.target, header_bytes + (eager ? sent.bytes : 0), id,
        eager ? Carries::eager : Carries::rts);
}

void Models::landed(const Operation& operation) {
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

void Models::match(MessageId id) {
  const Message& here = message(id);
  if (is_eager(here)) return steps_.received(id);
  if (scenario_.protocol == Protocol::push) {
    return write(here.target, here.source, header_bytes, id, Carries::cts);
  }
  submit(id);
  issue(here.target, 0);
}

void Models::submit(MessageId id) {
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

void Models::issue(NodeId node, std::size_t place) {
  SchedulerWithPeers& scheduler = *ranks_[node].schedulers[place];
  Chunk chunk;
  while (scheduler.next(chunk)) {
    const auto id = static_cast<MessageId>(scheduler.request(chunk.transfer).token);
    adapter_.post(node, message(id).source, Verb::read, chunk.length_bytes,
                  static_cast<std::uint64_t>(chunk.transfer), static_cast<std::uint16_t>(place));
  }
}

void Models::completed(const Operation& operation) {
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

// ---- looking in ----

bool Models::conserved() const {
  std::uint64_t outstanding = 0;
  for (const Rank& rank : ranks_) {
    for (const auto& scheduler : rank.schedulers) {
      if (!scheduler->conserved()) return false;
      outstanding += scheduler->reads().chunks();
    }
  }
  return !broken_ && outstanding == adapter_.under_way(Verb::read);
}

void Models::tell(Values& values) const {
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
  const auto us = [&](std::int64_t ticks) { return static_cast<double>(ticks) * tick_ns_ / 1'000; };
  values.emplace_back("finished_us", over() ? us(steps_.last_received()) : 0);
  std::vector<double> latencies;
  for (const std::int64_t ticks : steps_.latencies()) latencies.push_back(us(ticks));
  add_latencies(std::move(latencies), values);
}

}  // namespace weir::sim::network
