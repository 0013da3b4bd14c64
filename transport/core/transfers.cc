#include "transport/core/transfers.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

namespace weir {

void Transfers::submit(const Now& now, const TransferRequest& request, Outbox& out) {
  Peer& peer = peers_[request.peer];
  if (peer.connection.is_over()) {
    out.report({request.token, false});
    return;
  }
  count(request);
  peer.fetches = peer.fetches || fetches(request.opcode);
  if (gate_ == nullptr && post_at_once(now, peer, request, out)) [[likely]]
    return;
  scheduler_.submit(peer.transfers, request);
  if (scheduler_.wants_chain(request) && scheduler_.knows_c()) fetch_lanes_.want(peer, out);
  if (config_.paths > 1 && wants_spread(request)) fetch_lanes_.want_further(now, peer, out);
  if (peer.connection.is_ready()) go_on(now, peer, out);
}

// A small operation whose lane has room, when nothing waits.
bool Transfers::post_at_once(const Now& now, Peer& peer, const TransferRequest& request,
                             Outbox& out) {
  if (!peer.connection.is_ready()) return false;
  if (peer.further && is_atomic(request.opcode)) return false;  // there may be too many reads
  const LaneId id = lane_for(peer, false, request.opcode, request.length_bytes);
  if (id == LaneId::none || !lanes_[id].queue.has_room(false)) return false;
  Chunk chunk;
  if (!scheduler_.submit_and_issue(peer.transfers, request, chunk)) return false;
  post(now, peer, request, chunk, id, 0, out);
  if (chunk.kind == TransferKind::get) note_reads();
  return true;
}

void Transfers::count(const TransferRequest& request) {
  if (request.opcode == Opcode::read) {
    ++counters_.gets;
    counters_.get_bytes += request.length_bytes;
  } else if (request.opcode == Opcode::write) {
    ++counters_.puts;
    counters_.put_bytes += request.length_bytes;
  } else {
    ++counters_.atomics;
  }
}

// Keeps the tokens of the chunk that was admitted last.
class Transfers::Gate : public ChunkGate {
 public:
  Gate(RequestGate* gate, const Now& now) : gate_(gate), now_(now) {}
  ChunkGate* get() { return gate_ != nullptr ? this : nullptr; }
  bool admit(std::uint32_t bytes) override { return gate_->admit_chunk(now_, bytes, tokens_); }
  std::uint16_t take_tokens() { return std::exchange(tokens_, std::uint16_t{0}); }

 private:
  RequestGate* gate_;
  const Now& now_;
  std::uint16_t tokens_ = 0;
};

void Transfers::issue_chunks(const Now& now, Outbox& out) {
  Chunk chunk;
  std::optional<std::size_t> chain_end;
  // Whatever becomes of the rest of a chain, the part handed over needs a completion.
  const auto end_chain = [&] {
    if (!chain_end || out.work[*chain_end].signalled) return;
    out.work[*chain_end].signalled = true;
    lanes_[out.work[*chain_end].lane].queue.mark_signalled();
  };
  Gate gate(gate_, now);
  while (scheduler_.next(chunk, gate.get())) {
    Peer& peer = peers_[chunk.peer];
    const TransferRequest& request = scheduler_.request(chunk.transfer);
    const LaneId id = lane_for(peer, chunk.chained, request.opcode, chunk.length_bytes);
    post(now, peer, request, chunk, id, gate.take_tokens(), out);
    if (!chunk.chained) continue;
    if (chain_end && out.work[*chain_end].lane != id) end_chain();
    chain_end = out.work.size() - 1;
  }
  end_chain();
  note_reads();
  counters_.chains = scheduler_.counts().chains;
  counters_.node_read_waits = scheduler_.counts().node_stalls;
}

void Transfers::post(const Now& now, Peer& peer, const TransferRequest& request, const Chunk& chunk,
                     LaneId id, std::uint16_t tokens, Outbox& out) {
  Lane& lane = lanes_[id];
  const bool inlined =
      request.opcode == Opcode::write && chunk.length_bytes <= config_.inline_bytes;
  const bool timed = is_timed(chunk);
  const SendQueue::Posted posted = lane.queue.post_rdma({.transfer = chunk.transfer,
                                                         .offset = chunk.offset,
                                                         .posted = timed ? now.time() : Time{},
                                                         .bytes = chunk.length_bytes,
                                                         .tokens = tokens,
                                                         .chained = chunk.chained,
                                                         .timed = timed,
                                                         .lane_number = lane.number},
                                                        !chunk.chained || chunk.last);
  if (lane.number > 0) [[unlikely]]
    note_spread(now, peer, lane.number, chunk.length_bytes);
  out.work.push_back({.id = posted.id,
                      .lane = id,
                      .opcode = request.opcode,
                      .signalled = posted.signalled,
                      .inlined = inlined,
                      .length_bytes = chunk.length_bytes,
                      .lkey = chunk.lkey,
                      .address = chunk.local_address,
                      .remote_address = chunk.remote_address,
                      .rkey = chunk.rkey,
                      .operand = request.operand,
                      .compare = request.compare});
  ++counters_.chunks_sent;
  if (lane.queue.has_room(false) || lane.number > 0) [[likely]]
    return;
  if (lane.use == LaneUse::frames) {
    scheduler_.hold_peer(peer.transfers);
  } else {
    scheduler_.hold_chain(peer.transfers);
    if (lane_for_fetches(peer) == id) scheduler_.limit_reads(peer.transfers, 0);
  }
}

LaneId Transfers::lane_for(Peer& peer, bool chained, Opcode opcode, std::uint64_t bytes) {
  if (chained) return peer.fetch_lane.lane();
  if (peer.further && opcode == Opcode::read) [[unlikely]] {
    const Spread::Lanes open = open_further(peer);
    if (open != 0 && (bytes >= least_spread() || near_is_full(peer))) {
      return peer.further->lanes[peer.further->spread.choose(open, bytes)].lane();
    }
  }
  return fetches(opcode) ? lane_for_fetches(peer) : peer.connection.lane();
}

// The lane for fetches outside chains; none while it does not exist yet.
LaneId Transfers::lane_for_fetches(const Peer& peer) const {
  if (!keeps_fetches_apart(peer)) return peer.connection.lane();
  return peer.fetch_lane.usable() ? peer.fetch_lane.lane() : LaneId::none;
}

// How many fetches may be under way; 0 if none may be posted now. With further lanes, this is their
// room, but fetches on the usual lane count, too. So a further lane has room for each that may go.
std::uint32_t Transfers::fetches_open(const Peer& peer) const {
  const LaneId lane = lane_for_fetches(peer);
  if (lane != peer.connection.lane() &&
      (lane == LaneId::none || !lanes_[lane].queue.has_room(false))) {
    return 0;
  }
  const Spread::Lanes usable = peer.further ? usable_further(peer) : Spread::Lanes{0};
  if (usable == 0 || peer.transfers.has_atomics()) [[likely]]
    return near_fetches(peer);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < Spread::most_lanes; ++i) {
    if ((usable >> i & 1) != 0) sum += room_of(peer.further->lanes[i]);
  }
  return sum;
}

// How many fetches may be under way on the usual lane, which is none of the further ones.
std::uint32_t Transfers::near_fetches(const Peer& peer) const {
  return lane_for_fetches(peer) == peer.connection.lane() ? peer.connection.most_fetches()
                                                          : peer.fetch_lane.reads();
}

void Transfers::go_on(const Now& now, Peer& peer, Outbox& out) {
  if (idle()) return;
  if (scheduler_.has_unissued() && peer.connection.is_ready() && peer.transfers.has_unissued()) {
    if (peer.fetches && keeps_fetches_apart(peer)) {
      if (peer.fetch_lane.refused()) {
        return connector_.fail(now, peer, FailReason::no_resources, out);
      }
      fetch_lanes_.want(peer, out);
    }
    if (lanes_[peer.connection.lane()].queue.has_room(false)) {
      scheduler_.open_peer(peer.transfers, fetches_open(peer));
    } else {
      scheduler_.hold_peer(peer.transfers);  // frames took the room while there were no transfers
    }
    if (chains(peer) && lanes_[peer.fetch_lane.lane()].queue.has_room(false)) {
      scheduler_.open_chain(peer.transfers, peer.fetch_lane.reads());
    }
  }
  issue(now, out);
}

void Transfers::drop(const Now& now, Peer& peer, Outbox& out) {
  scheduler_.drop_peer(peer.transfers);  // even if it has none: later ones wait for the next lane
  note_reads();
  issue(now, out);  // its part of the budget is free for others
}

void Transfers::on_chunk_lost(const Now& now, const RdmaInFlight& chunk) {
  if (chunk.lane_number > 0) spread_of(chunk).lose(now, chunk.lane_number - 1u, chunk.bytes);
  scheduler_.lose_chunk(chunk.transfer, chunk.offset, chunk.bytes, chunk.chained);
  ++counters_.chunks_again;
}

void Transfers::go_again(const Now& now, Peer& peer, Outbox& out) {
  scheduler_.go_again(peer.transfers);
  note_reads();
  go_on(now, peer, out);
}

bool Transfers::repeat_lost(const Now& now, Peer& peer, Outbox& out) {
  const bool sound = scheduler_.lose_lanes(peer.transfers);
  note_reads();
  issue(now, out);  // its part of the budget is free for others
  return sound;
}

// Reports what is over, after chunks were issued or given up.
void Transfers::take_finished(Outbox& out) {
  FinishedTransfer finished;
  while (scheduler_.next_finished(finished)) out.report({finished.token, !finished.failed});
}

void Transfers::note_reads() {
  counters_.reads_out = scheduler_.reads().chunks();
  counters_.reads_out_peak = scheduler_.reads().peak_chunks();
  counters_.read_window = scheduler_.read_window_bytes();
}

// ---- the lane for fetches ----

// A chain is bounded by its lane alone. If fetches are kept apart, single chunks use the lane, too,
// and must not get fewer reads than c. A fixed c, which software keeps, needs the next power of
// two. An adaptive c needs as many reads as it usually reaches (BudgetController).
std::uint32_t Transfers::most_reads() const {
  if (!config_.fetches_apart) return scheduler_.chain_reads();
  const BudgetController& controller = scheduler_.controller();
  const auto reads = controller.adaptive()
                         ? controller.most_usual_bytes() / config_.transfers.plan.chunk_bytes
                         : controller.reads();
  return std::bit_ceil(
      std::clamp<std::uint32_t>(static_cast<std::uint32_t>(reads), 1u, config_.max_rd_atomic));
}

void Transfers::on_fetch_lane(const Now& now, Peer& peer, Outbox& out) {
  if (peer.fetch_lane.usable()) {
    ++counters_.bulk_lanes;
    if (chains(peer)) scheduler_.open_chain(peer.transfers, peer.fetch_lane.reads());
  }
  go_on(now, peer, out);
}

}  // namespace weir
