#include "tools/sim/network/reading.h"

#include <algorithm>

namespace weir::sim::network {
namespace {

// More than any run reads: a stream of large messages, one after the other, is one transfer.
constexpr std::uint64_t endless = std::uint64_t{1} << 44u;

std::uint32_t flits_of(std::uint32_t bytes) { return (bytes + flit_bytes - 1) / flit_bytes; }

}  // namespace

Scheduler::Config Reading::scheduler_config(const Scenario& scenario) {
  Scheduler::Config config;
  config.plan.chunk_bytes = static_cast<std::uint32_t>(scenario.chunk_bytes);
  config.reads.adaptive = scenario.adaptive;
  config.reads.reads = scenario.reads;
  config.reads.most_reads = scenario.most_reads;
  config.reads.queue_bytes = std::max(scenario.queue_bytes, scenario.chunk_bytes);
  config.reads.step_bytes = scenario.chunk_bytes;
  config.reads.least_bytes = std::max(scenario.least_bytes, scenario.chunk_bytes);
  config.reads.initial_bytes = 4 * scenario.chunk_bytes;
  return config;
}

Reading::Reading(const Scenario& scenario, const Roles& roles)
    : Traffic(scenario.fabric.topology.nodes()),
      tick_ns_(scenario.cycle_ns / ticks_a_cycle),
      budget_of_(scenario.budget_of),
      nodes_(roles.sources.size()) {
  const Scheduler::Config config = scheduler_config(scenario);
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    Node& node = nodes_[id];
    node.sources = roles.sources[id];
    const std::size_t budgets = budget_of_ == BudgetOf::transfer
                                    ? node.sources.size()
                                    : std::min<std::size_t>(node.sources.size(), 1);
    for (std::size_t i = 0; i < budgets; ++i) {
      node.schedulers.push_back(std::make_unique<Scheduler>(config));
    }
    for (std::uint32_t i = 0; i < node.sources.size(); ++i) submit(node, i);
  }
}

void Reading::submit(Node& node, std::uint32_t source) {
  const bool own = budget_of_ == BudgetOf::transfer;
  Scheduler& scheduler = *node.schedulers[own ? source : 0];
  const PeerId peer{own ? 0 : source};
  scheduler.open_peer(peer, ChunkBudget::no_limit);
  scheduler.submit({.kind = TransferKind::get,
                    .peer = peer,
                    .remote_address = 0,
                    .local_address = 0,
                    .length_bytes = endless});
}

void Reading::begin(Network& network) {
  Traffic::begin(network);
  for (Node& node : nodes_) {
    for (std::uint32_t i = 0; i < node.schedulers.size(); ++i) post(node, i);
  }
}

void Reading::post(Node& node, std::uint32_t index) {
  Chunk chunk;
  while (node.schedulers[index]->next(chunk)) {
    std::uint32_t slot = static_cast<std::uint32_t>(node.reads.size());
    if (node.free_reads.empty()) {
      node.reads.emplace_back();
    } else {
      slot = node.free_reads.back();
      node.free_reads.pop_back();
    }
    const std::uint32_t source = budget_of_ == BudgetOf::transfer ? index : weir::index(chunk.peer);
    node.reads[slot] = {.transfer = chunk.transfer,
                        .scheduler = index,
                        .bytes = chunk.length_bytes,
                        .missing_flits = flits_of(chunk.length_bytes),
                        .source = node.sources[source],
                        .posted = now()};
    node.requests.push_back(slot);
  }
}

bool Reading::next(NodeId id, PacketKind kind, std::uint32_t room, Packet& packet) {
  Node& node = nodes_[id];
  if (kind == PacketKind::request) {
    if (node.requests.empty()) return false;
    const std::uint32_t slot = node.requests.front();
    node.requests.pop_front();
    packet.target = node.reads[slot].source;
    packet.flits = 1;
    packet.number = slot;
    packet.tag = node.reads[slot].missing_flits;
    return true;
  }
  if (node.responses.empty()) return false;
  Response& response = node.responses.front();
  const std::uint32_t flits = std::min(response.flits, packet_flits);
  if (flits > room) return false;
  packet.target = response.reader;
  packet.flits = static_cast<std::uint16_t>(flits);
  packet.number = response.read;
  response.flits -= flits;
  if (response.flits == 0) node.responses.pop_front();
  return true;
}

void Reading::arrived(NodeId id, const Packet& packet) {
  Node& node = nodes_[id];
  if (packet.kind == PacketKind::request) {
    node.responses.push_back(
        {packet.source, packet.number, static_cast<std::uint32_t>(packet.tag)});
    network().kick(id);
    return;
  }
  count(id, packet);
  Read& read = node.reads[packet.number];
  read.missing_flits -= packet.flits;
  if (read.missing_flits > 0) return;
  const Duration took = {
      static_cast<std::int64_t>(static_cast<double>(now() - read.posted) * tick_ns_)};
  const std::uint32_t index = read.scheduler;
  node.schedulers[index]->on_chunk_done(time(), read.transfer, read.bytes, took);
  node.free_reads.push_back(packet.number);
  post(node, index);
  network().kick(id);
}

bool Reading::conserved() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    std::uint64_t outstanding = 0;
    for (const auto& scheduler : node.schedulers) {
      if (!scheduler->conserved()) return false;
      outstanding += scheduler->reads().chunks();
    }
    return outstanding + node.free_reads.size() == node.reads.size();
  });
}

double Reading::mean_reads() const {
  std::uint64_t reads = 0;
  std::uint64_t receivers = 0;
  for (const Node& node : nodes_) {
    receivers += node.schedulers.empty() ? 0 : 1;
    for (const auto& scheduler : node.schedulers) reads += scheduler->reads().chunks();
  }
  return receivers == 0 ? 0 : static_cast<double>(reads) / static_cast<double>(receivers);
}

}  // namespace weir::sim::network
