#include "rendezvous/scheduler.h"

namespace weir {

using Path = TransferPath;

Scheduler::Scheduler(const Config& config)
    : plan_(config.plan),
      small_bytes_(config.small_bytes),
      bypass_bytes_(config.bypass_bytes),
      chain_bytes_(config.chain_bytes),
      measure_every_(config.measure_every),
      window_(config.reads, plan_.chunk_bytes()),
      directions_{Direction{{controller().reads(), controller().bytes()}, {}},
                  Direction{{ChunkBudget::no_limit, config.write_bytes}, {}},
                  Direction{{ChunkBudget::no_limit, UINT64_MAX}, {}}} {}

Transfer& Scheduler::add(TransferPeer& peer, const TransferRequest& request) {
  know(peer);
  Transfer& transfer = transfers_.create(request);
  transfer.peer = &peer;
  ++counts_.submitted;
  transfer.path = path_by_chunks(request.kind);
  transfer.small = request.length_bytes <= small_bytes_;
  peer.transfers_.push(&transfer);
  peer.atomics_ += is_atomic(request.opcode) ? 1 : 0;
  return transfer;
}

TransferId Scheduler::submit(TransferPeer& peer, const TransferRequest& request) {
  Transfer& transfer = add(peer, request);
  if (request.length_bytes == 0) {
    transfer.move_to(TransferState::done);
    finish(transfer);
    return transfer.id;
  }
  Flow& flow = flow_of(transfer);
  flow.queue_of(transfer).push(&transfer);
  ++queued_;
  refresh(flow, transfer.path);
  return transfer.id;
}

// What `submit` and `next` would come to, without a queue in between.
bool Scheduler::submit_and_issue(TransferPeer& peer, const TransferRequest& request, Chunk& chunk) {
  const Path path = path_by_chunks(request.kind);
  Direction& direction = directions_[of(path)];
  Flow& flow = peer.flows_[of(path)];
  if (!peer.open_ || queued_ > 0 || !window_.node().idle() || flow.use.at_limit() ||
      request.length_bytes == 0 || request.length_bytes > plan_.chunk_bytes() ||
      (path == Path::get && request.length_bytes > window_.read_bytes(reads().bytes())) ||
      wants_chain(request)) {
    return false;
  }
  const auto bytes = static_cast<std::uint32_t>(request.length_bytes);
  if (!direction.budget.has_room(bytes)) return false;
  if (path == Path::get && !has_node_room(bytes)) return false;
  Transfer& transfer = add(peer, request);
  hand_out(flow, transfer, bytes, chunk);
  return true;
}

void Scheduler::open_peer(TransferPeer& peer, std::uint32_t max_reads) {
  know(peer);
  std::uint32_t& limit = peer.flows_[of(Path::get)].use.limit;
  if (peer.open_ && limit == max_reads) return;
  peer.open_ = true;
  limit = max_reads;
  refresh_all(peer);
}

void Scheduler::limit_reads(TransferPeer& peer, std::uint32_t max_reads) {
  Flow& gets = peer.flows_[of(Path::get)];
  gets.use.limit = max_reads;
  refresh(gets, Path::get);
}

void Scheduler::hold_peer(TransferPeer& peer) {
  peer.open_ = false;
  refresh_all(peer);
}

// A peer's large gets do not pass each other: they wait behind a chain not handed over in full.
bool Scheduler::may_issue(const Flow& flow, Path path) {
  const TransferPeer& peer = *flow.peer;
  const bool open = path == Path::chain ? peer.chain_.open : peer.open_;
  if (!open || flow.empty() || flow.use.at_limit()) return false;
  return path != Path::get || peer.flows_[of(Path::chain)].empty() || !flow.small.empty();
}

// A change of the chain may start or stop its peer's gets.
void Scheduler::refresh(Flow& flow, Path path) {
  directions_[of(path)].round.keep(flow, may_issue(flow, path));
  if (path == Path::chain) refresh(flow.peer->flows_[of(Path::get)], Path::get);
}

void Scheduler::refresh_all(TransferPeer& peer) {
  for (Path path : all_paths) refresh(peer.flows_[of(path)], path);
}

bool Scheduler::look_for_next(Chunk& chunk, ChunkGate* gate) {
  const Path first = turn_;
  const Path second = first == Path::get ? Path::put : Path::get;
  if (take(first, chunk, gate)) {
    turn_ = second;
    return true;
  }
  if (take(second, chunk, gate)) return true;
  if (take(Path::chain, chunk, gate)) return true;
  const bool reads_wait =
      !directions_[of(Path::get)].round.empty() || !directions_[of(Path::chain)].round.empty();
  if (!reads_wait) window_.decline();
  return false;
}

bool Scheduler::take(Path path, Chunk& chunk, ChunkGate* gate) {
  Direction& direction = directions_[of(path)];
  if (direction.round.empty()) return false;
  Flow& flow = path == Path::chain ? chain_in_turn() : *direction.round.front();
  if (path == Path::get) end_chain(*flow.peer);
  Transfer& transfer = flow.next(bypass_bytes_);
  if (path == Path::chain &&
      (!directions_[of(Path::get)].round.empty() || window_.bytes_of_others() > 0)) {
    leave_chain(transfer);
    return take(Path::get, chunk, gate);
  }
  ChainLane& lane = flow.peer->chain_;
  if (path == Path::get && lane.reads > 0 && may_be_chain(flow, transfer)) {
    if (!controller().adaptive() || lane.since_measured + 1 < measure_every_) {
      begin_chain(flow, transfer);
      return take(Path::chain, chunk, gate);
    }
    // One in several goes chunk by chunk, and alone: behind a chain it would measure the chain.
    if (lane.reserved_reads > 0) return false;
    transfer.measures = true;
    lane.since_measured = 0;
  }
  const std::uint32_t bytes = next_bytes(transfer);
  if (!direction.budget.has_room(bytes)) {
    ++counts_.budget_stalls;
    if (path == Path::get) window_.on_limited();
    return false;
  }
  if (path == Path::chain && !reserve_for(*flow.peer)) return false;
  if (path == Path::get && !has_node_room(bytes)) return false;
  if (gate != nullptr && !gate->admit(bytes)) return false;
  issue(flow, transfer, bytes, chunk);
  if (flow.use.at_limit() && !flow.empty()) ++counts_.peer_stalls;
  direction.round.spend(flow, bytes, plan_.largest_bytes());
  refresh(flow, path);
  return true;
}

bool Scheduler::has_node_room(std::uint64_t bytes) {
  const bool waited = waits_for_node();
  if (window_.has_node_room(bytes)) return true;
  if (!waited) ++counts_.node_stalls;
  return false;
}

void Scheduler::issue(Flow& flow, Transfer& transfer, std::uint32_t bytes, Chunk& chunk) {
  if (flow.passes(transfer, bytes)) ++counts_.bypasses;
  hand_out(flow, transfer, bytes, chunk);
  if (!transfer.all_issued()) return;
  flow.queue_of(transfer).remove(&transfer);
  --queued_;
}

// What was lost goes first.
std::uint32_t Scheduler::next_bytes(const Transfer& transfer) const {
  if (transfer.lost != nullptr) [[unlikely]]
    return transfer.lost->bytes;
  std::uint32_t chunk = plan_.chunk_bytes();
  if (transfer.path == Path::get) chunk = window_.read_bytes(reads().bytes());
  if (transfer.path == Path::chain) chunk = chain_read_bytes(*transfer.peer);
  return plan_.bytes_at(transfer.issued_bytes, transfer.request.length_bytes, transfer.written(),
                        chunk);
}

// Charges the budgets with the next chunk of the transfer, and describes it.
inline void Scheduler::hand_out(Flow& flow, Transfer& transfer, std::uint32_t bytes, Chunk& chunk) {
  if (transfer.path == Path::get) transfer.read_tokens += window_.commit();
  directions_[of(transfer.path)].budget.take(flow.use, bytes);
  const TransferRequest& request = transfer.request;
  std::uint64_t offset = transfer.issued_bytes;
  if (transfer.state == TransferState::waiting) transfer.move_to(TransferState::running);
  if (transfer.lost != nullptr) [[unlikely]] {
    offset = lost_.take(transfer).offset;
  } else {
    transfer.issued_bytes += bytes;
  }
  transfer.outstanding_bytes += bytes;
  ++transfer.outstanding_chunks;
  const bool chained = transfer.path == Path::chain;
  if (chained) {
    transfer.chained_bytes += bytes;
    ++transfer.chained_chunks;
  }
  chunk = {.transfer = transfer.id,
           .kind = request.kind,
           .last = transfer.all_issued(),
           .chained = chained,
           .peer = request.peer,
           .length_bytes = bytes,
           .offset = offset,
           .local_address = request.local_address + offset,
           .remote_address = request.remote_address + offset,
           .lkey = request.lkey,
           .rkey = request.rkey};
  ++counts_.chunks_issued;
}

// Gives a finished chunk back to the budget and returns its transfer; nullptr if there is none.
Transfer* Scheduler::take_back(TransferId id, std::uint32_t bytes, bool chained) {
  Transfer* transfer = transfers_.find(id);
  if (transfer == nullptr || transfer->outstanding_chunks == 0 ||
      transfer->outstanding_bytes < bytes || (chained && transfer->chained_chunks == 0)) {
    ++counts_.chunks_late;
    return nullptr;
  }
  transfer->outstanding_bytes -= bytes;
  --transfer->outstanding_chunks;
  if (chained) {
    transfer->chained_bytes -= bytes;
    --transfer->chained_chunks;
  }
  const Path path = chained ? Path::chain : path_by_chunks(transfer->request.kind);
  if (path == Path::get && transfer->read_tokens > 0) {
    const std::uint32_t tokens = NodeReads::tokens(bytes);
    transfer->read_tokens -= tokens;
    window_.give(tokens);
  }
  TransferPeer& peer = *transfer->peer;
  Flow& flow = peer.flows_[of(path)];
  directions_[of(path)].budget.give_back(flow.use, 1, bytes);
  if (queued_ > 0) refresh(flow, path);
  if (chained) settle_reserve(peer);
  return transfer;
}

bool Scheduler::on_chunk_done(Time now, TransferId id, std::uint32_t bytes,
                              Duration post_to_completion, bool chained) {
  const std::uint64_t outstanding = reads().bytes() + window_.bytes_of_others();
  Transfer* transfer = take_back(id, bytes, chained);
  if (transfer == nullptr) return false;
  ++counts_.chunks_done;
  if (post_to_completion > Duration{}) window_.note_time(post_to_completion);
  if (now != Time::never() && transfer->request.kind == TransferKind::get && !chained &&
      window_.on_read(now, bytes, post_to_completion, outstanding)) {
    directions_[of(Path::get)].budget.set_limits(controller().reads(), controller().bytes());
  }
  transfer->done_bytes += bytes;
  if (transfer->state == TransferState::running &&
      transfer->done_bytes == transfer->request.length_bytes) {
    transfer->move_to(TransferState::done);
  }
  finish(*transfer);
  return true;
}

bool Scheduler::on_chunk_failed(TransferId id, std::uint32_t bytes, bool chained) {
  Transfer* transfer = take_back(id, bytes, chained);
  if (transfer == nullptr) return false;
  ++counts_.chunks_lost;
  fail(*transfer);
  finish(*transfer);
  return true;
}

// Stops issuing chunks of the transfer.
void Scheduler::fail(Transfer& transfer) {
  if (transfer.state == TransferState::done || transfer.state == TransferState::failed) return;
  transfer.move_to(TransferState::failed);
  while (transfer.lost != nullptr) lost_.take(transfer);
  if (transfer.queue.linked) {
    Flow& flow = flow_of(transfer);
    flow.queue_of(transfer).remove(&transfer);
    --queued_;
    refresh(flow, transfer.path);
    settle_reserve(*flow.peer);
  }
}

// Hands the transfer back if it is over and no chunk of it is under way.
void Scheduler::finish(Transfer& transfer) {
  const bool over =
      transfer.state == TransferState::done || transfer.state == TransferState::failed;
  if (!over || transfer.outstanding_chunks > 0) return;
  transfer.peer->transfers_.remove(&transfer);
  transfer.peer->atomics_ -= is_atomic(transfer.request.opcode) ? 1 : 0;
  finished_.push(&transfer);
  ++(transfer.state == TransferState::done ? counts_.done : counts_.failed);
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

}  // namespace weir
