#include "tools/sim/network/reading.h"

#include <algorithm>

#include "tools/sim/network/fetching.h"

namespace weir::sim::network {
namespace {

// More than any run reads: a stream of large messages, one after the other, is one transfer.
constexpr std::uint64_t endless = std::uint64_t{1} << 44u;

}  // namespace

Reading::Reading(const Scenario& scenario, const Roles& roles)
    : Traffic(scenario.fabric.topology.nodes()),
      tick_ns_(scenario.cycle_ns / ticks_a_cycle),
      chunk_bytes_(scenario.chunk_bytes),
      adapter_(Adapter::Config::of(scenario), *this),
      nodes_(roles.sources.size()) {
  const Scheduler::Config config = scheduler_config(scenario);
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    Node& node = nodes_[id];
    node.sources = roles.sources[id];
    node.first = static_cast<std::uint32_t>(schedulers_.size());
    const auto sources = static_cast<std::uint32_t>(node.sources.size());
    const std::uint32_t wanted =
        scenario.budget_of == BudgetOf::transfer ? sources : std::min(sources, scenario.processes);
    if (scenario.budget_of == BudgetOf::node && wanted > 1) {
      node.shared = std::make_unique<Shared>();
    }
    while (node.schedulers < wanted) add_scheduler(node, config);
    for (std::uint32_t i = 0; i < sources; ++i) submit(node, i);
  }
}

void Reading::add_scheduler(Node& node, const Scheduler::Config& config) {
  schedulers_.push_back(std::make_unique<SchedulerWithPeers>(config));
  if (node.shared != nullptr) {
    Host::Door& door = node.shared->doors.emplace_back(node.shared->host);
    node.shared->host.join(door, node.schedulers);
    schedulers_.back()->join_node(&door.reads);
  }
  ++node.schedulers;
}

void Reading::submit(Node& node, std::uint32_t source) {
  SchedulerWithPeers& scheduler = *schedulers_[node.first + source % node.schedulers];
  const PeerId peer{source / node.schedulers};
  scheduler.open_peer(peer, ChunkBudget::no_limit);
  scheduler.submit({.kind = TransferKind::get,
                    .peer = peer,
                    .remote_address = 0,
                    .local_address = 0,
                    .length_bytes = endless});
}

void Reading::begin(Network& network) {
  Traffic::begin(network);
  adapter_.begin(network);
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    for (std::uint32_t i = 0; i < nodes_[id].schedulers; ++i) post(id, i);
  }
}

void Reading::post(NodeId id, std::uint32_t index) {
  Node& node = nodes_[id];
  SchedulerWithPeers& scheduler = *schedulers_[node.first + index];
  Chunk chunk;
  while (scheduler.next(chunk)) {
    const std::uint32_t source = weir::index(chunk.peer) * node.schedulers + index;
    adapter_.post(id, node.sources[source], Verb::read, chunk.length_bytes,
                  static_cast<std::uint64_t>(chunk.transfer), static_cast<std::uint16_t>(index));
  }
}

// The processes of a node look all the time; here, when something came back that they wait for.
void Reading::post_waiting(NodeId id) {
  const Node& node = nodes_[id];
  for (std::uint32_t i = 0; i < node.schedulers; ++i) {
    if (schedulers_[node.first + i]->waits_for_node()) post(id, i);
  }
}

void Reading::arrived(NodeId id, const Packet& packet) {
  if (adapter_.arrived(id, packet) && packet.kind == PacketKind::data) count(id, packet);
}

void Reading::completed(const Operation& operation, bool failed) {
  const NodeId id = operation.node;
  Node& node = nodes_[id];
  const std::uint32_t index = operation.context;
  SchedulerWithPeers& scheduler = *schedulers_[node.first + index];
  const auto took = static_cast<double>(adapter_.age(operation)) * tick_ns_;
  end_chunk(scheduler, time(), operation, {static_cast<std::int64_t>(took)}, failed);
  post(id, index);
  if (node.shared != nullptr) post_waiting(id);
}

void Reading::soon(NodeId id, const Packet* packet, unsigned stage) const {
  adapter_.soon(id, packet, stage);
  const Node& node = nodes_[id];
  if (packet == nullptr || packet->kind != PacketKind::data || node.schedulers == 0) return;
  if (stage == 0) {
    __builtin_prefetch(&schedulers_[node.first]);
    return;
  }
  // Its ends: in between are tables that are hardly used.
  const Scheduler* const scheduler = schedulers_[node.first].get();
  const auto* const object = reinterpret_cast<const char*>(scheduler);
  constexpr std::size_t line = 64;
  for (std::size_t i = 0; i < 4; ++i) __builtin_prefetch(object + i * line, 1);
  for (std::size_t i = 1; i <= 10; ++i) {
    __builtin_prefetch(object + sizeof(Scheduler) - i * line, 1);
  }
}

bool Reading::conserved() const {
  std::uint64_t outstanding = 0;
  for (const auto& scheduler : schedulers_) {
    if (!scheduler->conserved()) return false;
    outstanding += scheduler->reads().chunks();
  }
  return outstanding == adapter_.under_way(Verb::read) &&
         std::all_of(nodes_.begin(), nodes_.end(),
                     [this](const Node& node) { return has_tokens(node); });
}

// What the processes of a node have outstanding, they took from its pool.
bool Reading::has_tokens(const Node& node) const {
  if (node.shared == nullptr) return true;
  std::uint64_t tokens = 0;
  for (std::uint32_t i = 0; i < node.schedulers; ++i) {
    const ChunkBudget& reads = schedulers_[node.first + i]->reads();
    tokens += reads.chunks() * NodeReads::tokens(chunk_bytes_);
  }
  return tokens <= node.shared->doors.front().reads.asked();
}

double Reading::mean_reads() const {
  std::uint64_t reads = 0;
  std::uint64_t receivers = 0;
  for (const Node& node : nodes_) receivers += node.schedulers == 0 ? 0 : 1;
  for (const auto& scheduler : schedulers_) reads += scheduler->reads().chunks();
  return receivers == 0 ? 0 : static_cast<double>(reads) / static_cast<double>(receivers);
}

}  // namespace weir::sim::network
