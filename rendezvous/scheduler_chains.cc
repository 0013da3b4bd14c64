// Gets that go as chains: when one begins, what it has of the budgets, and how it ends.
#include <algorithm>
#include <utility>

#include "rendezvous/scheduler.h"

namespace weir {

using Path = TransferPath;

void Scheduler::open_chain(TransferPeer& peer, std::uint32_t reads) {
  reads = std::max(reads, 1u);
  ChainLane& lane = peer.chain_;
  if (lane.open && lane.reads == reads) return;
  lane.open = true;
  lane.reads = reads;
  refresh(peer.flows_[of(Path::chain)], Path::chain);
}

void Scheduler::hold_chain(TransferPeer& peer) {
  peer.chain_.open = false;
  refresh(peer.flows_[of(Path::chain)], Path::chain);
}

void Scheduler::close_chain(TransferPeer& peer) {
  hold_chain(peer);
  peer.chain_.reads = 0;
}

void Scheduler::end_chains(TransferPeer& peer) {
  end_chain(peer);
  close_chain(peer);
}

void Scheduler::limit(const BudgetController::Config& reads) {
  window_.limit(reads);
  directions_[of(Path::get)].budget.set_limits(controller().reads(), controller().bytes());
  for (TransferPeer* peer = known_.front(); peer != nullptr; peer = known_.next(peer)) {
    if (peer->chain_.reserved_bytes > window_.bytes()) end_chain(*peer);
  }
}

// Whether the next get of a peer with a lane for chains may go as a chain: no chunk of it is
// issued, and nobody else has a claim to a budget that can be divided anew with each chunk.
bool Scheduler::may_be_chain(const Flow& gets, const Transfer& transfer) {
  const TransferPeer& peer = *gets.peer;
  const ChainLane& lane = peer.chain_;
  const std::uint64_t under_way = std::uint64_t{lane.reads} * chain_read_bytes(peer);
  if (lane.reads > controller().reads() || transfer.measures || transfer.issued_bytes > 0 ||
      !wants_chain(transfer.request) || transfer.request.length_bytes <= under_way) {
    return false;
  }
  const Direction& reads = directions_[of(Path::get)];
  const bool passes_one = transfer.small && !gets.large.empty();
  const bool is_passed = gets.small.size() > (transfer.small ? 1u : 0u);
  if (passes_one || is_passed || !peer.flows_[of(Path::chain)].empty() ||
      !directions_[of(Path::chain)].round.empty() || reads.round.size() > 1 ||
      reads.budget.chunks() > lane.reserved_reads + gets.use.chunks ||
      window_.bytes_of_others() > 0) {
    return false;
  }
  return window_.fits_chain(under_way);
}

void Scheduler::begin_chain(Flow& gets, Transfer& transfer) {
  gets.queue_of(transfer).remove(&transfer);
  transfer.path = Path::chain;
  Flow& chains = flow_of(transfer);
  chains.queue_of(transfer).push(&transfer);
  refresh(chains, Path::chain);
  ++gets.peer->chain_.since_measured;
  ++counts_.chains;
}

// A chain that has its part of the budget goes before one that may wait until that is free.
Flow& Scheduler::chain_in_turn() const {
  const Round& round = directions_[of(Path::chain)].round;
  Flow* flow = round.front();
  while (flow != nullptr && flow->peer->chain_.reserved_reads == 0) flow = Round::after(flow);
  return flow != nullptr ? *flow : *round.front();
}

// Charges the read budget with the most that the peer's chain has under way.
bool Scheduler::reserve_for(TransferPeer& peer) {
  ChainLane& lane = peer.chain_;
  if (lane.reserved_reads > 0) return true;
  const std::uint32_t read_bytes = window_.chain_read_bytes();
  const std::uint64_t bytes = std::uint64_t{lane.reads} * read_bytes;
  if (!has_node_room(bytes)) return false;
  if (!directions_[of(Path::get)].budget.reserve(lane.reads, bytes)) {
    ++counts_.budget_stalls;
    return false;
  }
  lane.reserved_tokens = window_.commit();
  lane.reserved_reads = lane.reads;
  lane.reserved_bytes = bytes;
  lane.read_bytes = read_bytes;
  return true;
}

// Ends that reservation when nothing needs it any more.
void Scheduler::settle_reserve(TransferPeer& peer) {
  const Flow& chains = peer.flows_[of(Path::chain)];
  ChainLane& lane = peer.chain_;
  if (lane.reserved_reads == 0 || chains.use.chunks > 0 || !chains.empty()) return;
  directions_[of(Path::get)].budget.end_reservation(lane.reserved_reads, lane.reserved_bytes);
  window_.give(std::exchange(lane.reserved_tokens, 0));
  lane.reserved_reads = 0;
  lane.reserved_bytes = 0;
}

// Other reads came: the rest of the chain goes chunk by chunk, before later transfers.
void Scheduler::leave_chain(Transfer& transfer) {
  Flow& chains = flow_of(transfer);
  chains.queue_of(transfer).remove(&transfer);
  transfer.path = Path::get;
  flow_of(transfer).queue_of(transfer).push_front(&transfer);
  refresh(chains, Path::chain);
  settle_reserve(*chains.peer);
  ++counts_.chains_left;
}

}  // namespace weir
