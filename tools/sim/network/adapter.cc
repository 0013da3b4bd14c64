#include "tools/sim/network/adapter.h"

#include <algorithm>

#include "tools/sim/network/scenario.h"

namespace weir::sim::network {

void Adapter::post(NodeId node, NodeId peer, Verb verb, std::uint32_t bytes, std::uint64_t token,
                   std::uint16_t context) {
  if (free_.empty()) {
    free_.push_back(static_cast<OperationId>(operations_.size()));
    operations_.emplace_back();
  }
  const OperationId id = free_.back();
  free_.pop_back();
  operations_[id] = {.node = node,
                     .peer = peer,
                     .bytes = bytes,
                     .missing_flits = flits_of(bytes),
                     .posted = static_cast<std::uint32_t>(network_->now()),
                     .context = context,
                     .verb = verb,
                     .token = token};
  ++under_way_[static_cast<unsigned>(verb)];
  if (verb == Verb::read) {
    nodes_[node].requests.push_back({id, 0});
  } else {
    nodes_[node].data.push_back({id, flits_of(bytes)});
  }
  network_->kick(node);
}

bool Adapter::next(NodeId id, PacketKind kind, std::uint32_t room, Packet& packet) {
  Node& node = nodes_[id];
  Ring<Sending>& queue = kind == PacketKind::request ? node.requests : node.data;
  if (queue.empty()) return false;
  Sending& sending = queue.front();
  const std::uint32_t flits =
      kind == PacketKind::request ? 1 : std::min(sending.flits, packet_flits);
  if (flits > room) return false;
  const Operation& operation = operations_[sending.operation];
  packet.target = operation.node == id ? operation.peer : operation.node;
  packet.flits = static_cast<std::uint16_t>(flits);
  packet.number = sending.operation;
  if (kind == PacketKind::data && sending.flits > flits) {
    sending.flits -= flits;
  } else {
    queue.pop_front();
  }
  return true;
}

void Adapter::arrived(NodeId node, const Packet& packet) {
  const OperationId id = packet.number;
  Operation& operation = operations_[id];
  if (packet.kind == PacketKind::request) {
    if (operation.verb == Verb::write) return finish(id);
    nodes_[node].data.push_back({id, operation.missing_flits});
    return network_->kick(node);
  }
  operation.missing_flits -= packet.flits;
  if (operation.missing_flits > 0) return;
  if (operation.verb == Verb::read) return finish(id);
  nodes_[node].requests.push_back({id, 0});
  client_.landed(Operation{operation});  // which may post: operations move
  network_->kick(node);
}

void Adapter::finish(OperationId id) {
  const Operation operation = operations_[id];
  free_.push_back(id);
  --under_way_[static_cast<unsigned>(operation.verb)];
  client_.completed(operation);
}

}  // namespace weir::sim::network
