// The adapters of all nodes: RDMA reads and writes over reliable connections, packet by packet, on
// a fabric that loses none.
//
//   read    request (one flit) ─▶ peer;   its packets ◀─ peer;    done when all are in memory
//   write   packets ─▶ peer, which has it when all are there;   acknowledgement (one flit) ◀─ peer
//
// Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tools/sim/network/network.h"
#include "tools/sim/network/ring.h"

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
            std::uint16_t context);

  // The time since a read or write was posted.
  Tick age(const Operation& operation) const {
    return static_cast<std::uint32_t>(network_->now()) - operation.posted;
  }

  // Endpoints'.
  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet);
  void arrived(NodeId node, const Packet& packet);

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

  void finish(OperationId id);

  Client& client_;
  Network* network_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<Operation> operations_;
  std::vector<OperationId> free_;
  std::array<std::uint64_t, 2> under_way_{};  // by verb
};

}  // namespace weir::sim::network
