// Whose chunk is next, on one path.
//
// Between peers: deficit round robin, with a quantum (the largest chunk) per turn. Peers that
// always have something to issue have had the same bytes to within two quanta at any moment, and no
// peer waits for more than two quanta of each other one.
//
// Within a peer: first come, first served, but small transfers pass large ones. For every
// `bypass_bytes` that passed it, the oldest large transfer issues a chunk. So a large transfer gets
// at least every (bypass_bytes / largest chunk + 2)th chunk. A small one waits for the small ones
// before it, for one large chunk per bypass_bytes of those, and for one more.
//
// Pure; the caller serialises.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/list.h"
#include "rendezvous/chunk_budget.h"
#include "rendezvous/transfer.h"

namespace weir {

// A peer's transfers of one path.
class Flow {
 public:
  TransferPeer* peer = nullptr;
  TransferQueue small;
  TransferQueue large;
  ChunkBudget::Use use;

  bool empty() const { return small.empty() && large.empty(); }
  std::size_t size() const { return small.size() + large.size(); }
  TransferQueue& queue_of(const Transfer& t) { return t.small ? small : large; }

  // The transfer that issues the next chunk; there must be one.
  Transfer& next(std::uint64_t bypass_bytes) const {
    if (large.empty()) return *small.front();
    if (small.empty() || passed_bytes_ >= bypass_bytes) return *large.front();
    return *small.front();
  }
  // It issues the chunk. True if that passes a large transfer.
  bool passes(const Transfer& transfer, std::uint32_t bytes) {
    if (!transfer.small) {
      passed_bytes_ = 0;
    } else if (!large.empty()) {
      passed_bytes_ += bytes;
      return true;
    }
    return false;
  }

 private:
  friend class Round;

  std::int64_t deficit_ = 0;        // bytes it may still issue this turn; a debt if negative
  std::uint64_t passed_bytes_ = 0;  // bytes of small transfers since a large one was served
  Link<Flow> in_round_;
};

// The flows of all peers that may issue; the front one has its turn.
class Round {
 public:
  bool empty() const { return flows_.empty(); }
  std::size_t size() const { return flows_.size(); }
  Flow* front() const { return flows_.front(); }
  static Flow* after(const Flow* flow) { return Flows::next(flow); }
  static bool has(const Flow& flow) { return flow.in_round_.linked; }

  // The flow is in the round exactly while it may issue. The rest of its turn, or its debt, stays:
  // both are less than a quantum.
  void keep(Flow& flow, bool may_issue) {
    if (may_issue && !has(flow)) flows_.push(&flow);
    if (!may_issue && has(flow)) flows_.remove(&flow);
  }

  // The flow issued a chunk, of a quantum at most. Its turn may be over: then it leaves the round,
  // and is at its end once it is kept again.
  void spend(Flow& flow, std::uint32_t bytes, std::uint32_t quantum) {
    // Its turn begins. A debt is less than the quantum, so it is paid.
    if (flow.deficit_ <= 0) flow.deficit_ += quantum;
    flow.deficit_ -= bytes;
    if (flow.deficit_ <= 0) flows_.remove(&flow);
  }

 private:
  using Flows = List<Flow, &Flow::in_round_>;
  Flows flows_;
};

}  // namespace weir
