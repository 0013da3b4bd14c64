// The simulator's counterpart of transport/btl/rails: a process with an engine on each of its
// rails, and what they do together. All that is decided is in transport/rail, which ships: over
// which rail a frame or a transfer goes, what becomes of it when that breaks, and when a peer is
// lost.
//
// Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/sim/engine.h"
#include "tools/sim/fabric.h"
#include "tools/sim/world.h"
#include "transport/rail/frames.h"
#include "transport/rail/transfers.h"

namespace weir::sim {

class Rails {
 public:
  // What comes up, over any rail. The buffer of a message goes back when the call returns.
  class Upcalls {
   public:
    virtual ~Upcalls() = default;
    virtual void on_message(Node from, std::size_t rail, const Delivery& message) = 0;
    virtual void on_delivered(void* user, bool delivered) = 0;
    virtual void on_transfer(const TransferEnd& end) = 0;
    // The job would end.
    virtual void on_peer_lost(Node peer, std::size_t rail, const Failure& failure) = 0;
    // A frame of the rail, which broke, is about to go over another one.
    virtual void on_carried(Node to, const SendSlot& frame) = 0;
  };
  using Counts = RailCounts;

  // Rail k of process p is node `k * processes + p` of the fabric.
  Rails(Fabric& fabric, Connections& connections, Node process, Node processes, std::size_t rails,
        const Engine::Config& config, bool spread, Upcalls& upcalls);

  // `write(at, rail)` writes the message.
  Status send(Node to, std::uint32_t length_bytes, std::uint8_t tag,
              const std::function<void(std::byte*, std::size_t)>& write);
  // As transport/btl has it.
  bool want_trains() const;
  // As a train of that number; `write(at, offset, bytes, rail)` writes a part.
  using WritePart =
      std::function<void(std::byte*, std::uint32_t, std::uint32_t, std::size_t rail)>;
  Status send_train(Node to, std::uint32_t number, std::uint32_t length_bytes, std::uint8_t tag,
                    const WritePart& write);
  // From now on the peer may send trains, or may not.
  void let_train(Node peer, bool may);
  // The end of it is told.
  Status send_told(Node to, std::uint32_t length_bytes, std::uint8_t tag, void* user,
                   const std::function<void(std::byte*, std::size_t)>& write);

  // Registers memory on each rail; `apart`: those with another adapter than the first one.
  RailKeys register_memory(void* memory, std::uint64_t bytes, Access access);
  // `keys` are the target's, `request.token` names it. `fenced`: rails whose parts have steps.
  void transfer(Node to, TransferRequest request, const RailKeys& keys, std::uint8_t fenced);

  int progress();
  bool idle() const;
  // From here on a failure is no news.
  void leave() { leaving_ = true; }
  // True once all are closed.
  bool try_close_all();
  void abandon_all();

  Engine& engine(std::size_t rail) { return *engines_[rail]; }
  const Engine& engine(std::size_t rail) const { return *engines_[rail]; }
  std::size_t count() const { return engines_.size(); }
  const weir::Links& links(Node peer) const { return peers_[peer]->links; }
  const Counts& counts() const { return counts_; }
  std::size_t parts_out() const { return transfers_.parts_out(); }

 private:
  struct Peer {
    Node node = 0;
    weir::Links links;
    RailTransfers::Ways ways;
  };
  struct Operation {
    Peer* peer = nullptr;
    TransferRequest request;  // of the whole, with its own token
    RailKeys keys{};
    std::uint8_t fenced = 0;
    Divisions::Part* part = nullptr;
    bool over = false;
  };
  class Ways;
  class RailUpcalls;

  // Every process knows every other from the start, in the order of their nodes.
  static PeerId id_of(Node peer) { return PeerId{peer}; }
  Peer& peer_of(PeerId id) { return *peers_[index(id)]; }
  std::size_t turn_for(Peer& peer);
  void serve_links();
  void lose_peer(Peer& peer, std::size_t rail, const Failure& failure);
  std::uint64_t begin(const Operation& operation);
  void divide(const Operation& whole);
  void submit(Divisions::Part& part, const Operation& whole);
  void look_back(Peer& peer, std::size_t rail, RailTransfers::Mask others);
  void withdraw(Peer& peer, std::size_t rail);
  void end(std::uint64_t token, bool ok);
  void finish(const Operation& done, bool ok);
  static RailTransfers::Mask others_of(const RailKeys& keys);

  Fabric& fabric_;
  Upcalls& upcalls_;
  const PeerName self_;
  const bool spread_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::unique_ptr<Peer>> peers_;
  RailTransfers transfers_;
  std::deque<Operation> operations_;  // by token
  std::array<std::uint64_t, most_rails> sinks_{};
  Counts counts_;
  Time asked_again_{};
  bool serving_ = false;
  bool leaving_ = false;
};

}  // namespace weir::sim
