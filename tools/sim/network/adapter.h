// The adapters of all nodes: RDMA reads and writes over reliable connections, packet by packet, on
// a fabric that loses none.
//
//   read    request (one flit) ─▶ peer;   its packets ◀─ peer;    done when all are in memory
//   write   packets ─▶ peer, which has it when all are there;   acknowledgement (one flit) ◀─ peer
//
// Single-threaded.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "tools/sim/network/network.h"
#include "tools/sim/network/ring.h"
#include "tools/sim/network/scenario.h"

namespace weir::sim::network {

using OperationId = std::uint32_t;

enum class Verb : std::uint8_t { read, write };

struct Operation {
  NodeId node = 0;  // whose it is
  NodeId peer = 0;
  std::uint32_t bytes = 0;
  std::uint32_t missing_flits = 0;
  std::uint32_t posted = 0;   // tick, modulo 2^32
  std::uint16_t context = 0;  // the client's
  Verb verb = Verb::read;
  std::uint64_t token = 0;  // the client's
};

class Adapter {
 public:
  // Whose operations they are.
  class Client {
   public:
    // It is over: a read is in memory, a write is acknowledged. `operation` is a copy.
    virtual void completed(const Operation& operation) = 0;
    // A write is in its peer's memory.
    virtual void landed(const Operation&) {}

   protected:
    ~Client() = default;
  };

  Adapter(std::uint32_t nodes, Client& client) : client_(client), nodes_(nodes) {}

  void begin(Network& network) { network_ = &network; }

  // Posts it. The node is kicked.
  void post(NodeId node, NodeId peer, Verb verb, std::uint32_t bytes, std::uint64_t token,
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

  // The time since a read or write was posted.
  Tick age(const Operation& operation) const {
    return static_cast<std::uint32_t>(network_->now()) - operation.posted;
  }

  // Endpoints'.
  bool next(NodeId id, PacketKind kind, std::uint32_t room, Packet& packet) {
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

  void arrived(NodeId node, const Packet& packet) {
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

  std::uint64_t under_way(Verb verb) const { return under_way_[static_cast<unsigned>(verb)]; }

 private:
  // What a node has to send: flits of data, or a request or acknowledgement.
  struct Sending {
    OperationId operation = 0;
    std::uint32_t flits = 0;
  };

  struct alignas(64) Node {
    Ring<Sending> requests;
    Ring<Sending> data;
  };

  void finish(OperationId id) {
    const Operation operation = operations_[id];
    free_.push_back(id);
    --under_way_[static_cast<unsigned>(operation.verb)];
    client_.completed(operation);
  }

  Client& client_;
  Network* network_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<Operation> operations_;
  std::vector<OperationId> free_;
  std::array<std::uint64_t, 2> under_way_{};  // by verb
};

}  // namespace weir::sim::network
