#include "rendezvous/scheduler.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace weir {
namespace {

using Path = TransferPath;

constexpr std::array<Path, 3> paths = {Path::get, Path::put, Path::chain};

// The path of transfers that do not go as a chain.
constexpr Path scheduled_path(TransferKind kind) {
  return kind == TransferKind::get ? Path::get : Path::put;
}

constexpr Path other(Path path) { return path == Path::get ? Path::put : Path::get; }

}  // namespace

Scheduler::Scheduler(const Config& config)
    : plan_(config.plan),
      small_bytes_(config.small_bytes),
      bypass_bytes_(config.bypass_bytes),
      chain_bytes_(config.chain_bytes),
      measure_every_(config.measure_every),
      controller_(config.reads),
      directions_{Direction{{controller_.reads(), controller_.bytes()}, {}},
                  Direction{{ChunkBudget::no_limit, config.write_bytes}, {}},
                  Direction{{ChunkBudget::no_limit, UINT64_MAX}, {}}} {}

Transfer& Scheduler::add(TransferPeer& peer, const TransferRequest& request) {
  know(peer);
  Transfer& transfer = transfers_.create(request);
  transfer.peer = &peer;
  ++counts_.submitted;
  transfer.path = scheduled_path(request.kind);
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
  const Path path = scheduled_path(request.kind);
  Direction& direction = directions_[of(path)];
  Flow& flow = peer.flows_[of(path)];
  if (!peer.open_ || queued_ > 0 || !node_.idle() || flow.use.at_limit() ||
      request.length_bytes == 0 || request.length_bytes > plan_.chunk_bytes() ||
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

// Whether the peer's next get may go as a chain: no chunk of it is issued, and nobody else has a
// claim to a budget that can be divided anew with each chunk.
bool Scheduler::may_be_chain(const Flow& gets, const Transfer& transfer) {
  const TransferPeer& peer = *gets.peer;
  const std::uint64_t under_way = std::uint64_t{peer.chain_reads_} * plan_.chunk_bytes();
  if (peer.chain_reads_ == 0 || peer.chain_reads_ > controller_.reads() || transfer.measures ||
      transfer.issued_bytes > 0 || !wants_chain(transfer.request) ||
      transfer.request.length_bytes <= under_way) {
    return false;
  }
  const Direction& reads = directions_[of(Path::get)];
  const bool passes_one = transfer.small && !gets.large.empty();
  const bool is_passed = gets.small.size() > (transfer.small ? 1u : 0u);
  if (passes_one || is_passed || !peer.flows_[of(Path::chain)].empty() ||
      !directions_[of(Path::chain)].active.empty() || reads.active.size() > 1 ||
      reads.budget.chunks() > peer.reserved_reads_ + gets.use.chunks ||
      node_.bytes_of_others() > 0) {
    return false;
  }
  if (!controller_.adaptive()) return true;
  // The window always moves by a chunk or so. The depth chosen when the lane was made still fits,
  // unless it is much too deep, or half as deep as it could be.
  const std::uint64_t window = controller_.bytes();
  const std::uint64_t give = std::max<std::uint64_t>(plan_.chunk_bytes(), under_way / 4);
  return window + give >= under_way && window < 2 * under_way;
}

void Scheduler::begin_chain(Flow& gets, Transfer& transfer) {
  gets.queue_of(transfer).remove(&transfer);
  transfer.path = Path::chain;
  Flow& chains = flow_of(transfer);
  chains.queue_of(transfer).push(&transfer);
  refresh(chains, Path::chain);
  ++gets.peer->chains_since_measured_;
  ++counts_.chains;
}

std::uint32_t Scheduler::chain_reads() const {
  if (!controller_.adaptive()) return std::bit_floor(controller_.reads());
  const auto chunks = static_cast<std::uint32_t>(controller_.window_bytes() / plan_.chunk_bytes());
  const std::uint32_t above = std::bit_ceil(std::max(chunks, 1u));
  return chunks * 4 >= above * 3 ? above : above / 2;
}

void Scheduler::open_peer(TransferPeer& peer, std::uint32_t max_reads) {
  know(peer);
  std::uint32_t& limit = peer.flows_[of(Path::get)].use.limit;
  if (peer.open_ && limit == max_reads) return;
  peer.open_ = true;
  limit = max_reads;
  for (Path path : paths) refresh(peer.flows_[of(path)], path);
}

void Scheduler::limit_reads(TransferPeer& peer, std::uint32_t max_reads) {
  Flow& gets = peer.flows_[of(Path::get)];
  gets.use.limit = max_reads;
  refresh(gets, Path::get);
}

void Scheduler::hold_peer(TransferPeer& peer) {
  peer.open_ = false;
  for (Path path : paths) refresh(peer.flows_[of(path)], path);
}

void Scheduler::open_chain(TransferPeer& peer, std::uint32_t reads) {
  reads = std::max(reads, 1u);
  if (peer.chain_open_ && peer.chain_reads_ == reads) return;
  peer.chain_open_ = true;
  peer.chain_reads_ = reads;
  refresh(peer.flows_[of(Path::chain)], Path::chain);
}

void Scheduler::hold_chain(TransferPeer& peer) {
  peer.chain_open_ = false;
  refresh(peer.flows_[of(Path::chain)], Path::chain);
}

void Scheduler::close_chain(TransferPeer& peer) {
  hold_chain(peer);
  peer.chain_reads_ = 0;
}

void Scheduler::end_chains(TransferPeer& peer) {
  end_chain(peer);
  close_chain(peer);
}

// A peer's large gets do not pass each other: they wait behind a chain not handed over in full.
bool Scheduler::may_issue(const Flow& flow, Path path) {
  const TransferPeer& peer = *flow.peer;
  const bool open = path == Path::chain ? peer.chain_open_ : peer.open_;
  if (!open || flow.empty() || flow.use.at_limit()) return false;
  return path != Path::get || peer.flows_[of(Path::chain)].empty() || !flow.small.empty();
}

// The flow is in the round exactly while it may issue. The rest of its turn, or its debt, stays:
// both are less than a quantum. A change of the chain may start or stop its peer's gets.
void Scheduler::refresh(Flow& flow, Path path) {
  const bool may = may_issue(flow, path);
  auto& active = directions_[of(path)].active;
  if (may && !flow.active.linked) active.push(&flow);
  if (!may && flow.active.linked) active.remove(&flow);
  if (path == Path::chain) refresh(flow.peer->flows_[of(Path::get)], Path::get);
}

bool Scheduler::look_for_next(Chunk& chunk, ChunkGate* gate) {
  const Path first = turn_;
  for (Path path : {first, other(first)}) {
    if (take(path, chunk, gate)) {
      turn_ = other(path);
      return true;
    }
  }
  if (take(Path::chain, chunk, gate)) return true;
  const bool reads_wait =
      !directions_[of(Path::get)].active.empty() || !directions_[of(Path::chain)].active.empty();
  if (!reads_wait) node_.decline(node_window());
  return false;
}

// A chain that has its part of the budget goes before one that may wait until that is free.
Scheduler::Flow* Scheduler::chain_in_turn() const {
  const auto& active = directions_[of(Path::chain)].active;
  Flow* flow = active.front();
  while (flow != nullptr && flow->peer->reserved_reads_ == 0) flow = active.next(flow);
  return flow != nullptr ? flow : active.front();
}

bool Scheduler::take(Path path, Chunk& chunk, ChunkGate* gate) {
  Direction& direction = directions_[of(path)];
  Flow* flow = path == Path::chain ? chain_in_turn() : direction.active.front();
  if (flow == nullptr) return false;
  if (path == Path::get) end_chain(*flow->peer);
  Transfer& transfer = pick(*flow);
  if (path == Path::chain &&
      (!directions_[of(Path::get)].active.empty() || node_.bytes_of_others() > 0)) {
    leave_chain(transfer);
    return take(Path::get, chunk, gate);
  }
  if (path == Path::get && may_be_chain(*flow, transfer)) {
    TransferPeer& peer = *flow->peer;
    if (!controller_.adaptive() || peer.chains_since_measured_ + 1 < measure_every_) {
      begin_chain(*flow, transfer);
      return take(Path::chain, chunk, gate);
    }
    // One in several goes chunk by chunk, and alone: behind a chain it would measure the chain.
    if (peer.reserved_reads_ > 0) return false;
    transfer.measures = true;
    peer.chains_since_measured_ = 0;
  }
  const std::uint32_t bytes = next_bytes(transfer);
  if (!direction.budget.has_room(bytes)) {
    ++counts_.budget_stalls;
    if (path == Path::get) controller_.on_limited();
    return false;
  }
  if (path == Path::chain && !reserve_for(*flow->peer)) return false;
  if (path == Path::get && !has_node_room(bytes)) return false;
  if (gate != nullptr && !gate->admit(bytes)) return false;
  // Its turn begins. A debt is less than the quantum, which is the largest chunk, so it is paid.
  if (flow->deficit <= 0) flow->deficit += plan_.largest_bytes();
  issue(*flow, transfer, bytes, chunk);
  flow->deficit -= bytes;
  if (flow->use.at_limit() && !flow->empty()) ++counts_.peer_stalls;
  if (flow->deficit <= 0) {  // to the end of the round
    direction.active.remove(flow);
  }
  refresh(*flow, path);
  return true;
}

bool Scheduler::has_node_room(std::uint64_t bytes) {
  const bool waited = node_.waiting();
  if (node_.ensure(bytes, node_window())) return true;
  if (!waited) ++counts_.node_stalls;
  controller_.on_limited();
  return false;
}

// Charges the read budget with the most that the peer's chain has under way.
bool Scheduler::reserve_for(TransferPeer& peer) {
  if (peer.reserved_reads_ > 0) return true;
  const std::uint64_t bytes = std::uint64_t{peer.chain_reads_} * plan_.chunk_bytes();
  if (!has_node_room(bytes)) return false;
  if (!directions_[of(Path::get)].budget.reserve(peer.chain_reads_, bytes)) {
    ++counts_.budget_stalls;
    return false;
  }
  peer.reserved_tokens_ = node_.commit();
  peer.reserved_reads_ = peer.chain_reads_;
  peer.reserved_bytes_ = bytes;
  return true;
}

// Ends that reservation when nothing needs it any more.
void Scheduler::settle_reserve(TransferPeer& peer) {
  const Flow& chains = peer.flows_[of(Path::chain)];
  if (peer.reserved_reads_ == 0 || chains.use.chunks > 0 || !chains.empty()) return;
  directions_[of(Path::get)].budget.end_reservation(peer.reserved_reads_, peer.reserved_bytes_);
  node_.give(std::exchange(peer.reserved_tokens_, 0));
  peer.reserved_reads_ = 0;
  peer.reserved_bytes_ = 0;
}

// Moves the rest of the peer's chain to the path for gets, if there is a chain.
void Scheduler::end_chain(TransferPeer& peer) {
  Flow& chains = peer.flows_[of(Path::chain)];
  if (!chains.empty()) leave_chain(pick(chains));
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
  hand_out(flow, transfer, bytes, chunk);
  if (!transfer.all_issued()) return;
  flow.queue_of(transfer).remove(&transfer);
  --queued_;
}

// What was lost goes first.
std::uint32_t Scheduler::next_bytes(const Transfer& transfer) const {
  if (transfer.lost != nullptr) [[unlikely]]
    return transfer.lost->bytes;
  return plan_.bytes_at(transfer.issued_bytes, transfer.request.length_bytes, transfer.written());
}

// Charges the budgets with the next chunk of the transfer, and describes it.
inline void Scheduler::hand_out(Flow& flow, Transfer& transfer, std::uint32_t bytes, Chunk& chunk) {
  if (transfer.path == Path::get) transfer.read_tokens += node_.commit();
  directions_[of(transfer.path)].budget.take(flow.use, bytes);
  const TransferRequest& request = transfer.request;
  std::uint64_t offset = transfer.issued_bytes;
  if (transfer.state == TransferState::waiting) transfer.move_to(TransferState::running);
  if (transfer.lost != nullptr) [[unlikely]] {
    offset = take_lost(transfer).offset;
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
  const Path path = chained ? Path::chain : scheduled_path(transfer->request.kind);
  if (path == Path::get && transfer->read_tokens > 0) {
    const std::uint32_t tokens = NodeReads::tokens(bytes);
    transfer->read_tokens -= tokens;
    node_.give(tokens);
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
  const std::uint64_t outstanding = reads().bytes() + node_.bytes_of_others();
  Transfer* transfer = take_back(id, bytes, chained);
  if (transfer == nullptr) return false;
  ++counts_.chunks_done;
  if (post_to_completion > Duration{}) last_rtt_ = post_to_completion;
  if (now != Time::never() && transfer->request.kind == TransferKind::get && !chained) {
    if (post_to_completion > Duration{}) read_times_.add(post_to_completion);
    if (controller_.on_read(now, bytes, post_to_completion, outstanding)) {
      directions_[of(Path::get)].budget.set_limits(controller_.reads(), controller_.bytes());
    }
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
  while (transfer.lost != nullptr) take_lost(transfer);
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
  give_back(scheduled_path(transfer.request.kind),
            transfer.outstanding_chunks - transfer.chained_chunks,
            transfer.outstanding_bytes - transfer.chained_bytes);
  counts_.chunks_lost += transfer.outstanding_chunks;
  node_.give(std::exchange(transfer.read_tokens, 0));
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
  keep_lost(*transfer, offset, bytes);
}

// The youngest first, so that the oldest is in front of its queue in the end.
void Scheduler::go_again(TransferPeer& peer) {
  for (Transfer* t = peer.transfers_.back(); t != nullptr; t = TransfersOfPeer::prev(t)) {
    if (t->lost == nullptr) continue;
    if (t->queue.linked) {
      flow_of(*t).queue_of(*t).remove(t);
    } else {
      t->path = scheduled_path(t->request.kind);
      ++queued_;
    }
    flow_of(*t).queue_of(*t).push_front(t);
  }
  for (Path path : paths) refresh(peer.flows_[of(path)], path);
}

bool Scheduler::lose_lanes(TransferPeer& peer) {
  hold_peer(peer);
  end_chain(peer);
  hold_chain(peer);
  go_again(peer);
  return !std::exchange(peer.atomics_lost_, false);
}

void Scheduler::keep_lost(Transfer& transfer, std::uint64_t offset, std::uint32_t bytes) {
  if (lost_free_ == nullptr) lost_free_ = &lost_.emplace_back();
  LostChunk* const chunk = std::exchange(lost_free_, lost_free_->next);
  *chunk = {offset, bytes, nullptr};
  (transfer.lost != nullptr ? transfer.last_lost->next : transfer.lost) = chunk;
  transfer.last_lost = chunk;
}

LostChunk Scheduler::take_lost(Transfer& transfer) {
  LostChunk* const chunk = std::exchange(transfer.lost, transfer.lost->next);
  const LostChunk taken = *chunk;
  chunk->next = std::exchange(lost_free_, chunk);
  return taken;
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

bool Scheduler::conserved() const {
  std::array<std::uint64_t, paths.size()> chunks{};
  std::array<std::uint64_t, paths.size()> bytes{};
  std::array<std::size_t, paths.size()> active{};
  std::uint64_t all_queued = 0;
  std::uint64_t reserved_chunks = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t node_tokens = 0;
  std::size_t live = finished_.size() + withdrawn_.size();
  for (const TransferPeer* p = known_.front(); p != nullptr; p = known_.next(p)) {
    const TransferPeer& peer = *p;
    std::array<std::uint64_t, paths.size()> peer_chunks{};
    std::array<std::uint64_t, paths.size()> peer_bytes{};
    std::array<std::size_t, paths.size()> queued{};
    std::uint32_t atomics = 0;
    reserved_chunks += peer.reserved_reads_;
    reserved_bytes += peer.reserved_bytes_;
    node_tokens += peer.reserved_tokens_;
    live += peer.transfers_.size();
    for (const Transfer* t = peer.transfers_.front(); t != nullptr; t = TransfersOfPeer::next(t)) {
      const unsigned scheduled = of(scheduled_path(t->request.kind));
      peer_chunks[scheduled] += t->outstanding_chunks - t->chained_chunks;
      peer_bytes[scheduled] += t->outstanding_bytes - t->chained_bytes;
      peer_chunks[of(Path::chain)] += t->chained_chunks;
      peer_bytes[of(Path::chain)] += t->chained_bytes;
      node_tokens += t->read_tokens;
      if (t->queue.linked) ++queued[of(t->path)];
      atomics += is_atomic(t->request.opcode) ? 1 : 0;
      if (t->issued_bytes > t->request.length_bytes) return false;
      if (t->queue.linked == (t->state == TransferState::failed || t->all_issued())) return false;
      std::uint64_t lost_bytes = 0;
      for (const LostChunk* c = t->lost; c != nullptr; c = c->next) lost_bytes += c->bytes;
      if (t->state != TransferState::failed &&
          t->issued_bytes != t->done_bytes + t->outstanding_bytes + lost_bytes) {
        return false;
      }
    }
    if (atomics != peer.atomics_) return false;
    for (Path path : paths) {
      const Flow& flow = peer.flows_[of(path)];
      if (flow.use.chunks != peer_chunks[of(path)]) return false;
      if (flow.use.bytes != peer_bytes[of(path)]) return false;
      if (flow.small.size() + flow.large.size() != queued[of(path)]) return false;
      if (flow.active.linked != may_issue(flow, path)) return false;
      all_queued += queued[of(path)];
      active[of(path)] += flow.active.linked ? 1 : 0;
      chunks[of(path)] += peer_chunks[of(path)];
      bytes[of(path)] += peer_bytes[of(path)];
    }
    const bool chain_under_way = queued[of(Path::chain)] + peer_chunks[of(Path::chain)] > 0;
    if (peer.reserved_reads_ > 0 && !chain_under_way) return false;
  }
  for (Path path : paths) {
    const Direction& direction = directions_[of(path)];
    const bool reads = path == Path::get;
    if (direction.budget.chunks() != chunks[of(path)] + (reads ? reserved_chunks : 0)) return false;
    if (direction.budget.bytes() != bytes[of(path)] + (reads ? reserved_bytes : 0)) return false;
    if (direction.active.size() != active[of(path)]) return false;
  }
  return node_tokens == node_.out() && live == transfers_.live() && all_queued == queued_ &&
         counts_.chunks_issued ==
             counts_.chunks_done + counts_.chunks_lost + chunks[0] + chunks[1] + chunks[2];
}

}  // namespace weir
