#include "rendezvous/scheduler.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace weir {
namespace {

using Path = TransferPath;

constexpr std::array<Path, 3> paths = {Path::get, Path::put, Path::chain};

// Of what does not go as a chain.
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
  transfer.path = scheduled_path(request.kind);
  transfer.small = request.length_bytes <= small_bytes_;
  peer.transfers.push(&transfer);
  if (request.length_bytes == 0) {
    transfer.move_to(TransferState::done);
    finish(transfer);
    return transfer.id;
  }
  Flow& flow = flow_of(transfer);
  flow.queue_of(transfer).push(&transfer);
  refresh(flow, transfer.path);
  return transfer.id;
}

// Whether the peer's next get may go as a chain: nothing of it is issued, and nobody else has a
// claim to a budget that can be divided anew with each chunk.
bool Scheduler::may_be_chain(const Flow& gets, const Transfer& transfer) const {
  const Peer& peer = *gets.peer;
  const std::uint64_t under_way = std::uint64_t{peer.chain_reads} * plan_.chunk_bytes();
  if (peer.chain_reads == 0 || peer.chain_reads > controller_.reads() || transfer.measures ||
      transfer.issued_bytes > 0 || !wants_chain(transfer.request) ||
      transfer.request.length_bytes <= under_way) {
    return false;
  }
  const Direction& reads = directions_[of(Path::get)];
  const bool passes_one = transfer.small && !gets.large.empty();
  const bool is_passed = gets.small.size() > (transfer.small ? 1u : 0u);
  if (passes_one || is_passed || !peer.flows[of(Path::chain)].empty() ||
      !directions_[of(Path::chain)].active.empty() || reads.active.size() > 1 ||
      reads.budget.chunks() > peer.reserved_reads + gets.use.chunks ||
      node_.bytes_of_others() > 0) {
    return false;
  }
  if (!controller_.adaptive()) return true;
  // The window moves by a chunk or so all the time; what it was when the lane was made still fits
  // as long as it is not much too deep, nor half as deep as it could be.
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
  ++gets.peer->chains_since_measured;
  ++counts_.chains;
}

std::uint32_t Scheduler::chain_reads() const {
  if (!controller_.adaptive()) return std::bit_floor(controller_.reads());
  const auto chunks = static_cast<std::uint32_t>(controller_.window_bytes() / plan_.chunk_bytes());
  const std::uint32_t above = std::bit_ceil(std::max(chunks, 1u));
  return chunks * 4 >= above * 3 ? above : above / 2;
}

void Scheduler::open_peer(PeerId id, std::uint32_t max_reads) {
  Peer& peer = peer_at(id);
  peer.open = true;
  peer.flows[of(Path::get)].use.limit = max_reads;
  for (Path path : paths) refresh(peer.flows[of(path)], path);
}

void Scheduler::limit_reads(PeerId id, std::uint32_t max_reads) {
  Flow& gets = peer_at(id).flows[of(Path::get)];
  gets.use.limit = max_reads;
  refresh(gets, Path::get);
}

void Scheduler::hold_peer(PeerId id) {
  Peer& peer = peer_at(id);
  peer.open = false;
  for (Path path : paths) refresh(peer.flows[of(path)], path);
}

void Scheduler::open_chain(PeerId id, std::uint32_t reads) {
  Peer& peer = peer_at(id);
  peer.chain_open = true;
  peer.chain_reads = std::max(reads, 1u);
  refresh(peer.flows[of(Path::chain)], Path::chain);
}

void Scheduler::hold_chain(PeerId id) {
  Peer& peer = peer_at(id);
  peer.chain_open = false;
  refresh(peer.flows[of(Path::chain)], Path::chain);
}

void Scheduler::close_chain(PeerId id) {
  hold_chain(id);
  peer_at(id).chain_reads = 0;
}

// Of a peer's large gets none passes another: behind a chain that is not handed over yet they wait.
bool Scheduler::may_issue(const Flow& flow, Path path) {
  const Peer& peer = *flow.peer;
  const bool open = path == Path::chain ? peer.chain_open : peer.open;
  if (!open || flow.empty() || flow.use.at_limit()) return false;
  return path != Path::get || peer.flows[of(Path::chain)].empty() || !flow.small.empty();
}

// In the round while it may issue, and only then. What is left of its turn, or its debt, stays:
// both are less than a quantum. With a chain its peer's gets may begin or have to wait.
void Scheduler::refresh(Flow& flow, Path path) {
  const bool may = may_issue(flow, path);
  auto& active = directions_[of(path)].active;
  if (may && !flow.active.linked) active.push(&flow);
  if (!may && flow.active.linked) active.remove(&flow);
  if (path == Path::chain) refresh(flow.peer->flows[of(Path::get)], Path::get);
}

bool Scheduler::next(Chunk& chunk, ChunkGate* gate) {
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

bool Scheduler::take(Path path, Chunk& chunk, ChunkGate* gate) {
  Direction& direction = directions_[of(path)];
  Flow* flow = direction.active.front();
  if (flow == nullptr) return false;
  if (path == Path::get) end_chain(*flow->peer);
  Transfer& transfer = pick(*flow);
  if (path == Path::chain &&
      (!directions_[of(Path::get)].active.empty() || node_.bytes_of_others() > 0)) {
    leave_chain(transfer);
    return take(Path::get, chunk, gate);
  }
  if (path == Path::get && may_be_chain(*flow, transfer)) {
    Peer& peer = *flow->peer;
    if (!controller_.adaptive() || peer.chains_since_measured + 1 < measure_every_) {
      begin_chain(*flow, transfer);
      return take(Path::chain, chunk, gate);
    }
    // One of several goes chunk by chunk, alone: behind a chain it would measure that.
    if (peer.reserved_reads > 0) return false;
    transfer.measures = true;
    peer.chains_since_measured = 0;
  }
  const std::uint32_t bytes =
      plan_.bytes_at(transfer.issued_bytes, transfer.request.length_bytes, transfer.written());
  if (!direction.budget.has_room(bytes)) {
    ++counts_.budget_stalls;
    if (path == Path::get) controller_.on_limited();
    return false;
  }
  if (path == Path::chain && !reserve_for(*flow->peer)) return false;
  if (path == Path::get && !has_node_room(bytes)) return false;
  if (gate != nullptr && !gate->admit(bytes)) return false;
  if (path == Path::get) transfer.read_tokens += node_.commit();
  // Its turn begins. A debt is less than the largest chunk, which is the quantum, so it is paid.
  if (flow->deficit <= 0) flow->deficit += plan_.largest_bytes();
  direction.budget.take(flow->use, bytes);
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

// Charges the read budget with what the peer's chain has under way at most.
bool Scheduler::reserve_for(Peer& peer) {
  if (peer.reserved_reads > 0) return true;
  const std::uint64_t bytes = std::uint64_t{peer.chain_reads} * plan_.chunk_bytes();
  if (!has_node_room(bytes)) return false;
  if (!directions_[of(Path::get)].budget.reserve(peer.chain_reads, bytes)) {
    ++counts_.budget_stalls;
    return false;
  }
  peer.reserved_tokens = node_.commit();
  peer.reserved_reads = peer.chain_reads;
  peer.reserved_bytes = bytes;
  return true;
}

// Gives that back when nothing is left that would need it.
void Scheduler::settle_reserve(Peer& peer) {
  const Flow& chains = peer.flows[of(Path::chain)];
  if (peer.reserved_reads == 0 || chains.use.chunks > 0 || !chains.empty()) return;
  directions_[of(Path::get)].budget.end_reservation(peer.reserved_reads, peer.reserved_bytes);
  node_.give(std::exchange(peer.reserved_tokens, 0));
  peer.reserved_reads = 0;
  peer.reserved_bytes = 0;
}

// What is not handed over yet of the peer's chain, if it has one.
void Scheduler::end_chain(Peer& peer) {
  Flow& chains = peer.flows[of(Path::chain)];
  if (!chains.empty()) leave_chain(pick(chains));
}

// Somebody else reads: the rest of it goes chunk by chunk, before what came later.
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
  const TransferRequest& request = transfer.request;
  const std::uint64_t offset = transfer.issued_bytes;
  if (transfer.state == TransferState::waiting) transfer.move_to(TransferState::running);
  transfer.issued_bytes += bytes;
  transfer.outstanding_bytes += bytes;
  ++transfer.outstanding_chunks;
  const bool chained = transfer.path == Path::chain;
  if (chained) {
    transfer.chained_bytes += bytes;
    ++transfer.chained_chunks;
  }
  if (transfer.all_issued()) flow.queue_of(transfer).remove(&transfer);
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

// The transfer whose chunk is over, after the budget has it back; nullptr if there is none.
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
  Peer& peer = peers_[index(transfer->request.peer)];
  Flow& flow = peer.flows[of(path)];
  directions_[of(path)].budget.give_back(flow.use, 1, bytes);
  refresh(flow, path);
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
  if (transfer->request.kind == TransferKind::get && !chained &&
      controller_.on_read(now, bytes, post_to_completion, outstanding)) {
    directions_[of(Path::get)].budget.set_limits(controller_.reads(), controller_.bytes());
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

// No chunk of it is issued any more.
void Scheduler::fail(Transfer& transfer) {
  if (transfer.state == TransferState::done || transfer.state == TransferState::failed) return;
  transfer.move_to(TransferState::failed);
  if (transfer.queue.linked) {
    Flow& flow = flow_of(transfer);
    flow.queue_of(transfer).remove(&transfer);
    refresh(flow, transfer.path);
    settle_reserve(*flow.peer);
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
    const auto drop = [&](Path path, std::uint32_t chunks, std::uint64_t bytes) {
      directions_[of(path)].budget.give_back(peer.flows[of(path)].use, chunks, bytes);
    };
    drop(Path::chain, transfer->chained_chunks, transfer->chained_bytes);
    drop(scheduled_path(transfer->request.kind),
         transfer->outstanding_chunks - transfer->chained_chunks,
         transfer->outstanding_bytes - transfer->chained_bytes);
    counts_.chunks_lost += transfer->outstanding_chunks;
    node_.give(std::exchange(transfer->read_tokens, 0));
    transfer->outstanding_chunks = transfer->chained_chunks = 0;
    transfer->outstanding_bytes = transfer->chained_bytes = 0;
    finish(*transfer);
  }
  settle_reserve(peer);
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
  std::array<std::uint64_t, paths.size()> chunks{};
  std::array<std::uint64_t, paths.size()> bytes{};
  std::array<std::size_t, paths.size()> active{};
  std::uint64_t reserved_chunks = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t node_tokens = 0;
  std::size_t live = finished_.size();
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    const Peer& peer = peers_[i];
    std::array<std::uint64_t, paths.size()> peer_chunks{};
    std::array<std::uint64_t, paths.size()> peer_bytes{};
    std::array<std::size_t, paths.size()> queued{};
    reserved_chunks += peer.reserved_reads;
    reserved_bytes += peer.reserved_bytes;
    node_tokens += peer.reserved_tokens;
    live += peer.transfers.size();
    for (const Transfer* t = peer.transfers.front(); t != nullptr; t = TransfersOfPeer::next(t)) {
      const unsigned scheduled = of(scheduled_path(t->request.kind));
      peer_chunks[scheduled] += t->outstanding_chunks - t->chained_chunks;
      peer_bytes[scheduled] += t->outstanding_bytes - t->chained_bytes;
      peer_chunks[of(Path::chain)] += t->chained_chunks;
      peer_bytes[of(Path::chain)] += t->chained_bytes;
      node_tokens += t->read_tokens;
      if (t->queue.linked) ++queued[of(t->path)];
      if (t->issued_bytes > t->request.length_bytes) return false;
      if (t->queue.linked == (t->state == TransferState::failed || t->all_issued())) return false;
      if (t->state != TransferState::failed &&
          t->issued_bytes != t->done_bytes + t->outstanding_bytes) {
        return false;
      }
    }
    for (Path path : paths) {
      const Flow& flow = peer.flows[of(path)];
      if (flow.use.chunks != peer_chunks[of(path)]) return false;
      if (flow.use.bytes != peer_bytes[of(path)]) return false;
      if (flow.small.size() + flow.large.size() != queued[of(path)]) return false;
      if (flow.active.linked != may_issue(flow, path)) return false;
      active[of(path)] += flow.active.linked ? 1 : 0;
      chunks[of(path)] += peer_chunks[of(path)];
      bytes[of(path)] += peer_bytes[of(path)];
    }
    const bool chain_under_way = queued[of(Path::chain)] + peer_chunks[of(Path::chain)] > 0;
    if (peer.reserved_reads > 0 && !chain_under_way) return false;
  }
  for (Path path : paths) {
    const Direction& direction = directions_[of(path)];
    const bool reads = path == Path::get;
    if (direction.budget.chunks() != chunks[of(path)] + (reads ? reserved_chunks : 0)) return false;
    if (direction.budget.bytes() != bytes[of(path)] + (reads ? reserved_bytes : 0)) return false;
    if (direction.active.size() != active[of(path)]) return false;
  }
  return node_tokens == node_.out() && live == transfers_.live() &&
         counts_.chunks_issued ==
             counts_.chunks_done + counts_.chunks_lost + chunks[0] + chunks[1] + chunks[2];
}

}  // namespace weir
