// Transfers that end too early, and chunks that go once more: a peer, a lane or a rail is lost.
#include <utility>

#include "rendezvous/scheduler.h"

namespace weir {

using Path = TransferPath;

void Scheduler::cancel_peer(TransferPeer& peer) {
  hold_peer(peer);
  for (Transfer* t = peer.transfers_.front(); t != nullptr;) {
    Transfer& transfer = *t;
    t = TransfersOfPeer::next(t);
    fail(transfer);
    finish(transfer);
  }
}

void Scheduler::settle(TransferPeer& peer) {
  for (Transfer* t = peer.transfers_.front(); t != nullptr; t = TransfersOfPeer::next(t)) {
    t->in_doubt = false;
  }
}

// One under way ends with its connection, or completes.
void Scheduler::withdraw(TransferPeer& peer) {
  for (Transfer* t = peer.transfers_.front(); t != nullptr;) {
    Transfer& transfer = *t;
    t = TransfersOfPeer::next(t);
    if (!transfer.request.movable || transfer.in_doubt || transfer.outstanding_chunks > 0) continue;
    fail(transfer);
    peer.transfers_.remove(&transfer);
    withdrawn_.push(&transfer);
    ++counts_.failed;
  }
}

bool Scheduler::next_withdrawn(TransferRequest& request) {
  Transfer* const transfer = withdrawn_.pop();
  if (transfer == nullptr) return false;
  request = transfer->request;
  transfers_.release(*transfer);
  return true;
}

void Scheduler::drop_peer(TransferPeer& peer) {
  cancel_peer(peer);
  while (Transfer* transfer = peer.transfers_.front()) {
    give_up_chunks(*transfer);
    finish(*transfer);
  }
  settle_reserve(peer);
  peer.atomics_lost_ = false;
}

// Its outstanding chunks are over.
void Scheduler::give_up_chunks(Transfer& transfer) {
  const auto give_back = [&](Path path, std::uint32_t chunks, std::uint64_t bytes) {
    directions_[of(path)].budget.give_back(transfer.peer->flows_[of(path)].use, chunks, bytes);
  };
  give_back(Path::chain, transfer.chained_chunks, transfer.chained_bytes);
  give_back(path_by_chunks(transfer.request.kind),
            transfer.outstanding_chunks - transfer.chained_chunks,
            transfer.outstanding_bytes - transfer.chained_bytes);
  counts_.chunks_lost += transfer.outstanding_chunks;
  window_.give(std::exchange(transfer.read_tokens, 0));
  transfer.outstanding_chunks = transfer.chained_chunks = 0;
  transfer.outstanding_bytes = transfer.chained_bytes = 0;
}

void Scheduler::lose_chunk(TransferId id, std::uint64_t offset, std::uint32_t bytes, bool chained) {
  Transfer* const transfer = take_back(id, bytes, chained);
  if (transfer == nullptr) return;
  ++counts_.chunks_lost;
  if (transfer->state == TransferState::failed) return finish(*transfer);
  if (is_atomic(transfer->request.opcode)) transfer->peer->atomics_lost_ = true;
  if (transfer->changes_memory()) transfer->in_doubt = true;
  if (transfer->path == Path::chain && transfer->queue.linked) leave_chain(*transfer);
  lost_.keep(*transfer, offset, bytes);
}

// The youngest first, so that the oldest is in front of its queue in the end.
void Scheduler::go_again(TransferPeer& peer) {
  for (Transfer* t = peer.transfers_.back(); t != nullptr; t = TransfersOfPeer::prev(t)) {
    if (t->lost == nullptr) continue;
    if (t->queue.linked) {
      flow_of(*t).queue_of(*t).remove(t);
    } else {
      t->path = path_by_chunks(t->request.kind);
      ++queued_;
    }
    flow_of(*t).queue_of(*t).push_front(t);
  }
  refresh_all(peer);
}

bool Scheduler::lose_lanes(TransferPeer& peer) {
  hold_peer(peer);
  end_chain(peer);
  hold_chain(peer);
  go_again(peer);
  return !std::exchange(peer.atomics_lost_, false);
}

}  // namespace weir
