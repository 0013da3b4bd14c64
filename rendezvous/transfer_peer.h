// What a scheduler keeps about one peer: its transfers, and how much of the budgets they use. Only
// the scheduler changes it; it lives in the record of the owner of the peer table.
//
// A value until its first use, after which it must not move; the caller serialises.
#pragma once

#include <array>
#include <cstdint>

#include "base/list.h"
#include "rendezvous/flow.h"
#include "rendezvous/transfer.h"

namespace weir {

// A peer's lane for chains, and what its chain has of the budgets.
struct ChainLane {
  bool open = false;
  std::uint32_t reads = 0;           // under way on it at most; 0: there is no such lane
  std::uint32_t since_measured = 0;  // chains since a get that could be one went chunk by chunk
  std::uint32_t reserved_reads = 0;  // of the read budget, while a chain is under way
  std::uint64_t reserved_bytes = 0;
  std::uint32_t reserved_tokens = 0;  // and of the node's
  std::uint32_t read_bytes = 0;       // of each of these
};

class TransferPeer {
 public:
  TransferPeer() {
    for (Flow& flow : flows_) flow.peer = this;
  }
  TransferPeer(const TransferPeer&) = delete;
  TransferPeer& operator=(const TransferPeer&) = delete;

  // Transfers that are not over.
  bool has_transfers() const { return !transfers_.empty(); }
  // Some of these are atomics.
  bool has_atomics() const { return atomics_ > 0; }
  // Some of these may change the peer's memory without our doing anything more. Walks all.
  bool is_in_doubt() const {
    return any([](const Transfer& t) {
      return t.changes_memory() && (t.in_doubt || t.outstanding_chunks > 0);
    });
  }
  // Transfers with chunks to issue.
  bool has_unissued() const {
    for (const Flow& flow : flows_) {
      if (!flow.empty()) return true;
    }
    return false;
  }
  // Chunks of gets or puts that were handed out one by one and are not over.
  std::uint32_t outstanding(TransferKind kind) const {
    return flows_[static_cast<unsigned>(kind)].use.chunks;
  }

 private:
  friend class Scheduler;

  template <typename Is>
  bool any(Is&& is) const {
    const Transfer* t = transfers_.front();
    while (t != nullptr && !is(*t)) t = TransfersOfPeer::next(t);
    return t != nullptr;
  }

  bool open_ = false;
  ChainLane chain_;
  std::uint32_t atomics_ = 0;  // not over
  bool atomics_lost_ = false;  // an atomic was lost: it may have been executed
  std::array<Flow, 3> flows_;  // by path
  TransfersOfPeer transfers_;
  Link<TransferPeer> known_;
};

}  // namespace weir
