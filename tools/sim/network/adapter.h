// The adapters of all nodes: RDMA reads and writes over reliable connections, packet by packet.
//
//   read    request (one flit) ─▶ peer;   its packets ◀─ peer;    done when all are in memory
//   write   packets ─▶ peer, which has it when all are there;   acknowledgement (one flit) ◀─ peer
//
// Where packets may be lost, a connection goes back: when its oldest operation was not done for
// `timeout`, all that it has under way begins again, in its order; what an earlier attempt still
// brings counts for nothing. After `retries` times in a row all of it fails. (An
// adapter of today goes back to the first packet that is missing [IBTA 9.7.5.1]. Packets overtake
// each other here, so it cannot tell which one is; it begins the operation again.)
//
// Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <map>
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
  std::uint32_t missing_flits = 0;  // of this attempt
  std::uint32_t posted = 0;         // tick, modulo 2^32
  std::uint16_t context = 0;        // the client's
  std::uint8_t attempt = 0;         // modulo 2^8, and on from one operation of a slot to the next
  Verb verb = Verb::read;
  bool landed = false;      // a write: the peer has it
  bool live = false;        // the slot is taken
  std::uint64_t token = 0;  // the client's
};

class Adapter {
 public:
  // Whose operations they are.
  class Client {
   public:
    // It is over: a read is in memory, a write is acknowledged; or it failed. `operation` is a
    // copy.
    virtual void completed(const Operation& operation, bool failed) = 0;
    // A write is in its peer's memory; once.
    virtual void landed(const Operation&) {}

   protected:
    ~Client() = default;
  };

  struct Config {
    std::uint32_t nodes = 0;
    bool lossy = false;  // else no timer runs
    Tick timeout = 0;
    std::uint32_t retries = 7;

    static Config of(const Scenario& scenario) {
      return {.nodes = scenario.fabric.topology.nodes(),
              .lossy = scenario.lossy(),
              .timeout = static_cast<Tick>(scenario.timeout_cycles) * ticks_a_cycle,
              .retries = scenario.retries};
    }
  };

  struct Counts {
    std::uint64_t retried = 0;  // operations begun again
    std::uint64_t failed = 0;   // operations
    std::uint64_t stale = 0;    // packets of an earlier attempt
  };

  Adapter(const Config& config, Client& client)
      : config_(config), client_(client), nodes_(config.nodes) {}

  void begin(Network& network) { network_ = &network; }

  // Posts it. The node is kicked.
  void post(NodeId node, NodeId peer, Verb verb, std::uint32_t bytes, std::uint64_t token,
            std::uint16_t context = 0);

  // The time since a read or write was posted.
  Tick age(const Operation& operation) const {
    return static_cast<std::uint32_t>(network_->now()) - operation.posted;
  }

  // Endpoints'. `arrived` returns whether the packet was one that counts.
  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet);
  bool arrived(NodeId node, const Packet& packet);
  void woken(NodeId node);
  void soon(NodeId node, const Packet* packet, unsigned stage) const;

  const Operation& operation(OperationId id) const { return operations_[id]; }
  std::uint64_t under_way() const { return operations_.size() - free_.size(); }
  std::uint64_t under_way(Verb verb) const { return under_way_[static_cast<unsigned>(verb)]; }
  const Counts& counts() const { return counts_; }

 private:
  // What a node has to send: flits of data, or a request or acknowledgement.
  struct Sending {
    static constexpr std::uint32_t all_flits = 0xff'ffff;  // 4 GiB
    OperationId operation = 0;
    std::uint32_t flits : 24 = 0;
    std::uint32_t attempt : 8 = 0;
  };

  struct alignas(64) Node {
    Ring<Sending> requests;
    Ring<Sending> data;
  };

  // Of a node to a peer: what is under way, oldest first. Only where packets may be lost.
  struct Connection {
    std::vector<OperationId> operations;
    std::uint32_t retries = 0;  // in a row
    Tick deadline = 0;
    Tick wake = 0;  // the timer that is set; 0: none
  };

  bool is_current(OperationId id, std::uint32_t attempt) const {
    return operations_[id].live && operations_[id].attempt == attempt;
  }
  void issue(OperationId id);
  void acknowledge(OperationId id);
  void finish(OperationId id, bool failed);
  void drop_stale(Ring<Sending>& queue) const;
  void watch(OperationId id);
  void unwatch(OperationId id);
  void set_timer(NodeId node, Connection& connection);
  void go_back(Connection& connection);

  Config config_;
  Client& client_;
  Network* network_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<Operation> operations_;
  std::vector<OperationId> free_;
  std::array<std::uint64_t, 2> under_way_{};               // by verb
  std::vector<std::map<NodeId, Connection>> connections_;  // by node
  Counts counts_;
};

}  // namespace weir::sim::network
