#include "rendezvous/scheduler.h"

#include <algorithm>
#include <cassert>

namespace weir {
namespace {

constexpr std::array<TransferKind, 2> kinds = {TransferKind::get, TransferKind::put};

constexpr TransferKind other(TransferKind kind) {
  return kind == TransferKind::get ? TransferKind::put : TransferKind::get;
}

}  // namespace

Scheduler::Scheduler(const Config& config)
    : plan_(config.plan),
      small_bytes_(config.small_bytes),
      bypass_bytes_(config.bypass_bytes),
      controller_(config.reads),
      directions_{Direction{{controller_.reads(), controller_.bytes()}, {}},
                  Direction{{ChunkBudget::no_limit, config.write_bytes}, {}}} {}

void Scheduler::reserve(std::uint32_t transfers, std::uint32_t peers) {
  transfers_.reserve(transfers);
  if (peers > 0) peer_at(PeerId{peers - 1});
}

Scheduler::Peer& Scheduler::peer_at(PeerId id) {
  while (peers_.size() <= index(id)) {
    Peer& peer = peers_.emplace_back();
    peer.id = PeerId{peers_.size() - 1};
    for (Flow& flow : peer.flows) flow.peer = &peer;
  }
  return peers_[index(id)];
}

TransferId Scheduler::submit(const TransferRequest& request) {
  Peer& peer = peer_at(request.peer);
  Transfer& transfer = transfers_.create(request);
  ++counts_.submitted;
  transfer.small = request.length_bytes <= small_bytes_;
  peer.transfers.push(&transfer);
  if (request.length_bytes == 0) {
    transfer.move_to(TransferState::done);
    finish(transfer);
    return transfer.id;
  }
  Flow& flow = peer.flows[of(request.kind)];
  (transfer.small ? flow.small : flow.large).push(&transfer);
  refresh(flow, request.kind);
  return transfer.id;
}

void Scheduler::open_peer(PeerId id, std::uint32_t max_reads) {
  Peer& peer = peer_at(id);
  peer.open = true;
  peer.flows[of(TransferKind::get)].use.limit = std::max(max_reads, 1u);
  for (TransferKind kind : kinds) refresh(peer.flows[of(kind)], kind);
}

void Scheduler::hold_peer(PeerId id) {
  Peer& peer = peer_at(id);
  peer.open = false;
  for (TransferKind kind : kinds) refresh(peer.flows[of(kind)], kind);
}

// In the round while it may issue, and only then. What is left of its turn, or its debt, stays:
// both are less than a quantum.
void Scheduler::refresh(Flow& flow, TransferKind kind) {
  const bool may_issue = flow.peer->open && !flow.empty() && !flow.use.at_limit();
  auto& active = directions_[of(kind)].active;
  if (may_issue && !flow.active.linked) active.push(&flow);
  if (!may_issue && flow.active.linked) active.remove(&flow);
}

bool Scheduler::next(Chunk& chunk) {
  const TransferKind first = turn_;
  for (TransferKind kind : {first, other(first)}) {
    if (take(kind, chunk)) {
      turn_ = other(kind);
      return true;
    }
  }
  return false;
}

bool Scheduler::take(TransferKind kind, Chunk& chunk) {
  Direction& direction = directions_[of(kind)];
  Flow* flow = direction.active.front();
  if (flow == nullptr) return false;
  Transfer& transfer = pick(*flow);
  const std::uint32_t bytes =
      plan_.bytes_at(transfer.issued_bytes, transfer.request.length_bytes, transfer.written());
  if (!direction.budget.has_room(bytes)) {
    ++counts_.budget_stalls;
    if (kind == TransferKind::get) controller_.on_limited();
    return false;
  }
  // Its turn begins. A debt is less than the largest chunk, which is the quantum, so it is paid.
  if (flow->deficit <= 0) flow->deficit += plan_.largest_bytes();
  direction.budget.take(flow->use, bytes);
  issue(*flow, transfer, bytes, chunk);
  flow->deficit -= bytes;
  if (flow->use.at_limit() && !flow->empty()) ++counts_.peer_stalls;
  if (flow->deficit <= 0) {  // to the end of the round
    direction.active.remove(flow);
  }
  refresh(*flow, kind);
  return true;
}

Transfer& Scheduler::pick(Flow& flow) const {
  if (flow.large.empty()) return *flow.small.front();
  if (flow.small.empty() || flow.passed_bytes >= bypass_bytes_) return *flow.large.front();
  return *flow.small.front();
}

void Scheduler::issue(Flow& flow, Transfer& transfer, std::uint32_t bytes, Chunk& chunk) {
  if (!transfer.small) {
    flow.passed_bytes = 0;
  } else if (!flow.large.empty()) {
    flow.passed_bytes += bytes;
    ++counts_.bypasses;
  }
  const TransferRequest& request = transfer.request;
  const std::uint64_t offset = transfer.issued_bytes;
  if (transfer.state == TransferState::waiting) transfer.move_to(TransferState::running);
  transfer.issued_bytes += bytes;
  transfer.outstanding_bytes += bytes;
  ++transfer.outstanding_chunks;
  if (transfer.all_issued()) (transfer.small ? flow.small : flow.large).remove(&transfer);
  chunk = {.transfer = transfer.id,
           .kind = request.kind,
           .last = transfer.all_issued(),
           .peer = request.peer,
           .length_bytes = bytes,
           .offset = offset,
           .local_address = request.local_address + offset,
           .remote_address = request.remote_address + offset,
           .lkey = request.lkey,
           .rkey = request.rkey};
  ++counts_.chunks_issued;
}

// The transfer whose chunk is over, after the budget has it back; nullptr if there is none.
Transfer* Scheduler::take_back(TransferId id, std::uint32_t bytes) {
  Transfer* transfer = transfers_.find(id);
  if (transfer == nullptr || transfer->outstanding_chunks == 0 ||
      transfer->outstanding_bytes < bytes) {
    ++counts_.chunks_late;
    return nullptr;
  }
  transfer->outstanding_bytes -= bytes;
  --transfer->outstanding_chunks;
  const TransferKind kind = transfer->request.kind;
  Flow& flow = flow_of(*transfer);
  directions_[of(kind)].budget.give_back(flow.use, 1, bytes);
  refresh(flow, kind);
  return transfer;
}

bool Scheduler::on_chunk_done(Time now, TransferId id, std::uint32_t bytes,
                              Duration post_to_completion) {
  const std::uint64_t outstanding = reads().bytes();
  Transfer* transfer = take_back(id, bytes);
  if (transfer == nullptr) return false;
  ++counts_.chunks_done;
  if (transfer->request.kind == TransferKind::get &&
      controller_.on_read(now, bytes, post_to_completion, outstanding)) {
    directions_[of(TransferKind::get)].budget.set_limits(controller_.reads(), controller_.bytes());
  }
  transfer->done_bytes += bytes;
  if (transfer->state == TransferState::running &&
      transfer->done_bytes == transfer->request.length_bytes) {
    transfer->move_to(TransferState::done);
  }
  finish(*transfer);
  return true;
}

bool Scheduler::on_chunk_failed(TransferId id, std::uint32_t bytes) {
  Transfer* transfer = take_back(id, bytes);
  if (transfer == nullptr) return false;
  ++counts_.chunks_lost;
  fail(*transfer);
  finish(*transfer);
  return true;
}

// No chunk of it is issued any more.
void Scheduler::fail(Transfer& transfer) {
  if (transfer.state == TransferState::done || transfer.state == TransferState::failed) return;
  transfer.move_to(TransferState::failed);
  if (transfer.queue.linked) {
    Flow& flow = flow_of(transfer);
    (transfer.small ? flow.small : flow.large).remove(&transfer);
    refresh(flow, transfer.request.kind);
  }
}

// Hands it back if it is over and nothing of it is under way.
void Scheduler::finish(Transfer& transfer) {
  const bool over =
      transfer.state == TransferState::done || transfer.state == TransferState::failed;
  if (!over || transfer.outstanding_chunks > 0) return;
  peers_[index(transfer.request.peer)].transfers.remove(&transfer);
  finished_.push(&transfer);
  ++(transfer.state == TransferState::done ? counts_.done : counts_.failed);
}

void Scheduler::cancel_peer(PeerId id) {
  hold_peer(id);
  Peer& peer = peer_at(id);
  for (Transfer* t = peer.transfers.front(); t != nullptr;) {
    Transfer& transfer = *t;
    t = TransfersOfPeer::next(t);
    fail(transfer);
    finish(transfer);
  }
}

void Scheduler::drop_peer(PeerId id) {
  if (index(id) >= peers_.size()) return;
  cancel_peer(id);
  Peer& peer = peer_at(id);
  while (Transfer* transfer = peer.transfers.front()) {
    directions_[of(transfer->request.kind)].budget.give_back(
        flow_of(*transfer).use, transfer->outstanding_chunks, transfer->outstanding_bytes);
    counts_.chunks_lost += transfer->outstanding_chunks;
    transfer->outstanding_chunks = 0;
    transfer->outstanding_bytes = 0;
    finish(*transfer);
  }
}

bool Scheduler::next_finished(FinishedTransfer& finished) {
  Transfer* transfer = finished_.pop();
  if (transfer == nullptr) return false;
  const TransferRequest& request = transfer->request;
  finished = {.kind = request.kind,
              .failed = transfer->state == TransferState::failed,
              .peer = request.peer,
              .token = request.token,
              .length_bytes = request.length_bytes};
  transfers_.release(*transfer);
  return true;
}

std::uint32_t Scheduler::outstanding(PeerId peer, TransferKind kind) const {
  if (index(peer) >= peers_.size()) return 0;
  return peers_[index(peer)].flows[of(kind)].use.chunks;
}

bool Scheduler::conserved() const {
  std::array<std::uint64_t, 2> chunks{};
  std::array<std::uint64_t, 2> bytes{};
  std::array<std::size_t, 2> active{};
  std::size_t live = finished_.size();
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    const Peer& peer = peers_[i];
    std::array<std::uint64_t, 2> peer_chunks{};
    std::array<std::uint64_t, 2> peer_bytes{};
    std::array<std::size_t, 2> queued{};
    live += peer.transfers.size();
    for (const Transfer* t = peer.transfers.front(); t != nullptr; t = TransfersOfPeer::next(t)) {
      const unsigned kind = of(t->request.kind);
      peer_chunks[kind] += t->outstanding_chunks;
      peer_bytes[kind] += t->outstanding_bytes;
      if (t->queue.linked) ++queued[kind];
      if (t->issued_bytes > t->request.length_bytes) return false;
      if (t->queue.linked == (t->state == TransferState::failed || t->all_issued())) return false;
      if (t->state != TransferState::failed &&
          t->issued_bytes != t->done_bytes + t->outstanding_bytes) {
        return false;
      }
    }
    for (unsigned kind = 0; kind < 2; ++kind) {
      const Flow& flow = peer.flows[kind];
      if (flow.use.chunks != peer_chunks[kind] || flow.use.bytes != peer_bytes[kind]) return false;
      if (flow.small.size() + flow.large.size() != queued[kind]) return false;
      const bool may_issue = peer.open && !flow.empty() && !flow.use.at_limit();
      if (flow.active.linked != may_issue) return false;
      active[kind] += may_issue ? 1 : 0;
      chunks[kind] += peer_chunks[kind];
      bytes[kind] += peer_bytes[kind];
    }
  }
  for (unsigned kind = 0; kind < 2; ++kind) {
    const Direction& direction = directions_[kind];
    if (direction.budget.chunks() != chunks[kind]) return false;
    if (direction.budget.bytes() != bytes[kind]) return false;
    if (direction.active.size() != active[kind]) return false;
  }
  return live == transfers_.live() &&
         counts_.chunks_issued == counts_.chunks_done + counts_.chunks_lost + chunks[0] + chunks[1];
}

}  // namespace weir
