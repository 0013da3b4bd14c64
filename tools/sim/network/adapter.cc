#include "tools/sim/network/adapter.h"

#include <algorithm>

namespace weir::sim::network {

void Adapter::post(NodeId node, NodeId peer, Verb verb, std::uint32_t bytes, std::uint64_t token,
                   std::uint16_t context) {
  auto id = static_cast<OperationId>(operations_.size());
  if (free_.empty()) {
    operations_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Operation& operation = operations_[id];
  operation = {.node = node,
               .peer = peer,
               .bytes = bytes,
               .posted = static_cast<std::uint32_t>(network_->now()),
               .context = context,
               .attempt = operation.attempt,
               .verb = verb,
               .live = true,
               .token = token};
  ++under_way_[static_cast<unsigned>(verb)];
  if (config_.lossy) watch(id);
  issue(id);
}

// From its beginning.
void Adapter::issue(OperationId id) {
  Operation& operation = operations_[id];
  ++operation.attempt;
  operation.missing_flits = flits_of(operation.bytes);
  Node& node = nodes_[operation.node];
  if (operation.verb == Verb::read) {
    node.requests.push_back({id, 0, operation.attempt});
  } else {
    node.data.push_back({id, operation.missing_flits & Sending::all_flits, operation.attempt});
  }
  network_->kick(operation.node);
}

void Adapter::drop_stale(Ring<Sending>& queue) const {
  while (!queue.empty() && !is_current(queue.front().operation, queue.front().attempt)) {
    queue.pop_front();
  }
}

bool Adapter::next(NodeId id, PacketKind kind, std::uint32_t room, Packet& packet) {
  Node& node = nodes_[id];
  Ring<Sending>& queue = kind == PacketKind::request ? node.requests : node.data;
  if (config_.lossy) drop_stale(queue);
  if (queue.empty()) return false;
  Sending& sending = queue.front();
  const std::uint32_t flits =
      kind == PacketKind::request ? 1 : std::min<std::uint32_t>(sending.flits, packet_flits);
  if (flits > room) return false;
  const Operation& operation = operations_[sending.operation];
  packet.target = operation.node == id ? operation.peer : operation.node;
  packet.flits = static_cast<std::uint16_t>(flits);
  packet.number = sending.operation;
  packet.flag = static_cast<std::uint8_t>(sending.attempt);
  if (kind == PacketKind::data && sending.flits > flits) {
    sending.flits -= flits & 0xffffffu;
  } else {
    queue.pop_front();
  }
  return true;
}

bool Adapter::arrived(NodeId node, const Packet& packet) {
  const OperationId id = packet.number;
  if (!is_current(id, packet.flag)) {
    ++counts_.stale;
    return false;
  }
  Operation& operation = operations_[id];
  if (packet.kind == PacketKind::request) {
    if (operation.verb == Verb::write) {
      finish(id, false);
    } else {
      nodes_[node].data.push_back({id, operation.missing_flits & Sending::all_flits, packet.flag});
      network_->kick(node);
    }
    return true;
  }
  operation.missing_flits -= packet.flits;
  if (operation.missing_flits > 0) return true;
  if (operation.verb == Verb::read) {
    finish(id, false);
  } else {
    acknowledge(id);
  }
  return true;
}

void Adapter::acknowledge(OperationId id) {
  Operation& operation = operations_[id];
  const NodeId peer = operation.peer;
  nodes_[peer].requests.push_back({id, 0, operation.attempt});
  if (!operation.landed) {
    operation.landed = true;
    client_.landed(Operation{operation});  // which may post: operations move
  }
  network_->kick(peer);
}

void Adapter::finish(OperationId id, bool failed) {
  if (config_.lossy) unwatch(id);
  operations_[id].live = false;
  const Operation operation = operations_[id];
  free_.push_back(id);
  --under_way_[static_cast<unsigned>(operation.verb)];
  if (failed) ++counts_.failed;
  client_.completed(operation, failed);
}

void Adapter::watch(OperationId id) {
  connections_.resize(nodes_.size());
  const Operation& operation = operations_[id];
  Connection& connection = connections_[operation.node][operation.peer];
  if (connection.operations.empty()) {
    connection.deadline = network_->now() + config_.timeout;
    connection.retries = 0;
  }
  connection.operations.push_back(id);
  set_timer(operation.node, connection);
}

void Adapter::unwatch(OperationId id) {
  const Operation& operation = operations_[id];
  Connection& connection = connections_[operation.node][operation.peer];
  // Those behind the oldest one prove nothing: an adapter of today would not take them yet.
  if (connection.operations.front() == id) {
    connection.deadline = network_->now() + config_.timeout;
    connection.retries = 0;
  }
  std::erase(connection.operations, id);
}

void Adapter::set_timer(NodeId node, Connection& connection) {
  if (connection.wake != 0) return;
  connection.wake = connection.deadline;
  network_->wake(node, connection.wake);
}

void Adapter::woken(NodeId node) {
  if (connections_.empty()) return;
  for (auto& [peer, connection] : connections_[node]) {
    if (connection.wake == 0 || connection.wake > network_->now()) continue;
    connection.wake = 0;
    if (connection.operations.empty()) continue;
    if (connection.deadline <= network_->now()) go_back(connection);
    if (!connection.operations.empty()) set_timer(node, connection);
  }
}

void Adapter::go_back(Connection& connection) {
  const std::vector<OperationId> all = connection.operations;
  if (connection.retries == config_.retries) {
    for (const OperationId id : all) finish(id, true);
    return;
  }
  ++connection.retries;
  connection.deadline = network_->now() + config_.timeout;
  counts_.retried += all.size();
  for (const OperationId id : all) issue(id);
}

void Adapter::soon(NodeId node, const Packet* packet, unsigned stage) const {
  const Node& at = nodes_[node];
  if (stage == 0) {
    __builtin_prefetch(&at, 1);
    if (packet != nullptr) __builtin_prefetch(&operations_[packet->number], 1);
    return;
  }
  __builtin_prefetch(at.requests.front_place(), 1);
  __builtin_prefetch(at.data.front_place(), 1);
}

}  // namespace weir::sim::network
