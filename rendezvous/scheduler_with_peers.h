// A Scheduler that keeps the records of its peers itself, by number: for models and tests, which
// have no table of peers.
//
// Not thread-safe. A new peer allocates.
#pragma once

#include <cstdint>

#include "base/stable_vector.h"
#include "rendezvous/scheduler.h"

namespace weir {

class SchedulerWithPeers : public Scheduler {
 public:
  using Scheduler::Scheduler;

  void reserve(std::uint32_t transfers, std::uint32_t peers) {
    Scheduler::reserve(transfers);
    if (peers > 0) at(PeerId{peers - 1});
  }
  TransferId submit(const TransferRequest& request) {
    return Scheduler::submit(at(request.peer), request);
  }
  bool submit_and_issue(const TransferRequest& request, Chunk& chunk) {
    return Scheduler::submit_and_issue(at(request.peer), request, chunk);
  }
  void open_peer(PeerId peer, std::uint32_t max_reads) {
    Scheduler::open_peer(at(peer), max_reads);
  }
  void limit_reads(PeerId peer, std::uint32_t max_reads) {
    Scheduler::limit_reads(at(peer), max_reads);
  }
  void hold_peer(PeerId peer) { Scheduler::hold_peer(at(peer)); }
  void open_chain(PeerId peer, std::uint32_t reads) { Scheduler::open_chain(at(peer), reads); }
  void hold_chain(PeerId peer) { Scheduler::hold_chain(at(peer)); }
  void close_chain(PeerId peer) { Scheduler::close_chain(at(peer)); }
  void cancel_peer(PeerId peer) { Scheduler::cancel_peer(at(peer)); }
  void withdraw(PeerId peer) { Scheduler::withdraw(at(peer)); }
  void drop_peer(PeerId peer) { Scheduler::drop_peer(at(peer)); }
  bool lose_lanes(PeerId peer) { return Scheduler::lose_lanes(at(peer)); }
  void go_again(PeerId peer) { Scheduler::go_again(at(peer)); }
  bool has_transfers(PeerId peer) { return at(peer).has_transfers(); }
  std::uint32_t outstanding(PeerId peer, TransferKind kind) { return at(peer).outstanding(kind); }

 private:
  TransferPeer& at(PeerId id) {
    while (peers_.size() <= index(id)) peers_.emplace_back();
    return peers_[index(id)];
  }

  StableVector<TransferPeer> peers_;
};

}  // namespace weir
