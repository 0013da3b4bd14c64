#include "tools/sim/network/ob1.h"

#include <algorithm>

#include "tools/sim/network/fetching.h"

namespace weir::sim::network {
namespace {

constexpr std::uint64_t header_bytes = 64;

}  // namespace

Ob1::Ob1(const Scenario& scenario, std::uint64_t seed)
    : Traffic(scenario.fabric.topology.nodes()),
      tick_ns_(scenario.cycle_ns / ticks_a_cycle),
      reads_(scenario.protocol == Protocol::reads),
      eager_bytes_(scenario.eager_bytes),
      scheduler_config_(scheduler_config(scenario)),
      adapter_(Adapter::Config::of(scenario), *this),
      workload_(make_workload(scenario, seed)),
      progress_(workload_.messages.size()),
      ranks_(scenario.fabric.topology.nodes()) {}

void Ob1::begin(Network& network) {
  Traffic::begin(network);
  adapter_.begin(network);
  // Those that wait for nothing; `waits` of others falls to nothing while these are entered.
  std::vector<std::uint32_t> ready;
  for (std::uint32_t id = 0; id < workload_.steps.size(); ++id) {
    if (workload_.steps[id].waits == 0) ready.push_back(id);
  }
  for (const std::uint32_t id : ready) {
    ++workload_.steps[id].waits;
    release(id);
  }
}

// One thing less that the step waits for.
void Ob1::release(std::uint32_t id) {
  Step& step = workload_.steps[id];
  if (--step.waits > 0) return;
  const auto work = static_cast<Tick>(step.work_cycles) * ticks_a_cycle;
  const Tick when = std::max(now() + work, static_cast<Tick>(step.not_before) * ticks_a_cycle);
  if (when <= now()) {
    enter(id);
    return;
  }
  ranks_[step.node].due.emplace(when, id);
  network().wake(step.node, when);
}

void Ob1::enter(std::uint32_t id) {
  const Step& step = workload_.steps[id];
  for (const std::uint32_t message : step.receives) {
    workload_.messages[message].posted = true;
    if (progress_[message].there) match(message);
  }
  for (const std::uint32_t message : step.sends) start(message);
  if (step.next != none) release(step.next);
}

void Ob1::write(NodeId from, NodeId to, std::uint64_t bytes, std::uint32_t message, Carries what) {
  adapter_.post(from, to, Verb::write, static_cast<std::uint32_t>(bytes), message,
                static_cast<std::uint16_t>(what));
}

void Ob1::start(std::uint32_t id) {
  const Message& message = workload_.messages[id];
  progress_[id].started = now();
  const bool eager = is_eager(message);
  write(message.source, message.target, header_bytes + (eager ? message.bytes : 0), id,
        eager ? Carries::eager : Carries::rts);
}

void Ob1::landed(const Operation& operation) {
  const auto id = static_cast<std::uint32_t>(operation.token);
  const Message& message = workload_.messages[id];
  switch (static_cast<Carries>(operation.context)) {
    case Carries::eager:
    case Carries::rts:
      progress_[id].there = true;
      if (message.posted) match(id);
      break;
    case Carries::cts:
      write(message.source, message.target, message.bytes, id, Carries::body);
      break;
    case Carries::body: received(id); break;
    case Carries::fin:
      for (const std::uint32_t step : message.on_sent) release(step);
      break;
    case Carries::chunk: break;
  }
}

void Ob1::match(std::uint32_t id) {
  const Message& message = workload_.messages[id];
  if (is_eager(message)) {
    received(id);
  } else if (reads_) {
    fetch(id);
  } else {
    write(message.target, message.source, header_bytes, id, Carries::cts);
  }
}

void Ob1::fetch(std::uint32_t id) {
  const Message& message = workload_.messages[id];
  Rank& rank = ranks_[message.target];
  if (rank.scheduler == nullptr)
    rank.scheduler = std::make_unique<SchedulerWithPeers>(scheduler_config_);
  const auto [at, is_new] =
      rank.peers.emplace(message.source, PeerId{static_cast<std::uint32_t>(rank.peers.size())});
  if (is_new) rank.scheduler->open_peer(at->second, ChunkBudget::no_limit);
  rank.scheduler->submit({.kind = TransferKind::get,
                          .peer = at->second,
                          .remote_address = 0,
                          .local_address = 0,
                          .length_bytes = message.bytes,
                          .token = id});
  issue(message.target);
}

void Ob1::issue(NodeId node) {
  SchedulerWithPeers& scheduler = *ranks_[node].scheduler;
  Chunk chunk;
  while (scheduler.next(chunk)) {
    // The transfer's message tells whose it is.
    const auto message = static_cast<std::uint32_t>(scheduler.request(chunk.transfer).token);
    adapter_.post(node, workload_.messages[message].source, Verb::read, chunk.length_bytes,
                  static_cast<std::uint64_t>(chunk.transfer),
                  static_cast<std::uint16_t>(Carries::chunk));
  }
}

void Ob1::completed(const Operation& operation, bool failed) {
  if (operation.verb == Verb::write) {
    const auto what = static_cast<Carries>(operation.context);
    if (failed || (what != Carries::eager && what != Carries::body)) return;
    for (const std::uint32_t step : workload_.messages[operation.token].on_sent) release(step);
    return;
  }
  SchedulerWithPeers& scheduler = *ranks_[operation.node].scheduler;
  const auto took = static_cast<double>(adapter_.age(operation)) * tick_ns_;
  end_chunk(scheduler, time(), operation, {static_cast<std::int64_t>(took)}, failed);
  issue(operation.node);
  finish(operation.node);
}

// Transfers that are over.
void Ob1::finish(NodeId node) {
  FinishedTransfer finished;
  while (ranks_[node].scheduler->next_finished(finished)) {
    if (finished.failed) continue;
    const auto id = static_cast<std::uint32_t>(finished.token);
    write(node, workload_.messages[id].source, header_bytes, id, Carries::fin);
    received(id);
  }
}

void Ob1::received(std::uint32_t id) {
  progress_[id].received = now();
  ++received_;
  for (const std::uint32_t step : workload_.messages[id].on_received) release(step);
}

void Ob1::arrived(NodeId id, const Packet& packet) {
  if (adapter_.arrived(id, packet) && packet.kind == PacketKind::data) count(id, packet);
}

void Ob1::woken(NodeId node) {
  adapter_.woken(node);
  auto& due = ranks_[node].due;
  while (!due.empty() && due.begin()->first <= now()) {
    const std::uint32_t step = due.begin()->second;
    due.erase(due.begin());
    enter(step);
  }
}

bool Ob1::conserved() const {
  std::uint64_t outstanding = 0;
  for (const Rank& rank : ranks_) {
    if (rank.scheduler == nullptr) continue;
    if (!rank.scheduler->conserved()) return false;
    outstanding += rank.scheduler->reads().chunks();
  }
  return outstanding == adapter_.under_way(Verb::read);
}

Messages Ob1::messages() const {
  Messages result;
  result.all = workload_.messages.size();
  result.received = received_;
  std::vector<Tick> latencies;
  Tick last = 0;
  for (const Progress& progress : progress_) {
    if (progress.received == 0) continue;
    latencies.push_back(progress.received - progress.started);
    last = std::max(last, progress.received);
  }
  if (latencies.empty()) return result;
  std::sort(latencies.begin(), latencies.end());
  const auto us = [&](Tick ticks) { return static_cast<double>(ticks) * tick_ns_ / 1'000; };
  const auto percentile = [&](std::size_t of_hundred) {
    return us(latencies[(latencies.size() - 1) * of_hundred / 100]);
  };
  if (over()) result.finished_us = us(last);
  result.median_us = percentile(50);
  result.p99_us = percentile(99);
  result.longest_us = us(latencies.back());
  return result;
}

}  // namespace weir::sim::network
