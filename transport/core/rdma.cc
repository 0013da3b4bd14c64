// Large messages and one-sided: gets, puts and atomics. rendezvous/scheduler decides which chunk
// goes next, under one budget for all peers; here chunks become work requests of the peer's lane,
// and completions come back to it.
//
// A chunk never waits in a send queue where it could hold up frames: a peer has at most
// max_rd_atomic reads under way, and while its queue has no room but for control frames its chunks
// wait here. Chains wait in the queue of the peer's second lane (bulk.cc), where no frames are.

#include <optional>
#include <utility>

#include "transport/core/core.h"

namespace weir {

void Core::transfer(Time now, const TransferRequest& request, Outbox& out) {
  Peer& peer = at(request.peer);
  if (peer.state == PeerState::failed || peer.state == PeerState::closing) {
    out.report({request.token, false});
    return;
  }
  scheduler_.submit(request);
  count_transfer(request);
  peer.fetches = peer.fetches || fetches(request.opcode);
  if (scheduler_.wants_chain(request) && scheduler_.knows_c()) want_bulk_lane(peer, out);
  if (peer.state == PeerState::ready) {
    let_chunks_go(now, peer, out);
  } else if (peer.state == PeerState::idle || peer.state == PeerState::closed) {
    connect(now, peer, out);
  }
}

void Core::count_transfer(const TransferRequest& request) {
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

// The node's say in a chunk.
class Core::Gate : public ChunkGate {
 public:
  Gate(Core& core, Time now) : core_(core), now_(now) {}
  bool admit(std::uint32_t bytes) override { return core_.admit_chunk(now_, bytes, tokens_); }
  // Of the chunk that was let through last.
  std::uint16_t take_tokens() { return std::exchange(tokens_, std::uint16_t{0}); }

 private:
  Core& core_;
  Time now_;
  std::uint16_t tokens_ = 0;
};

// Posts what the budget allows.
void Core::issue_chunks(Time now, Outbox& out) {
  Chunk chunk;
  std::optional<std::size_t> chain_end;
  // Whatever becomes of the rest of a chain, what was handed over has to be heard of.
  const auto end_chain = [&] {
    if (!chain_end || out.work[*chain_end].signalled) return;
    out.work[*chain_end].signalled = true;
    at(out.work[*chain_end].lane).queue.mark_signalled();
  };
  Gate gate(*this, now);
  while (scheduler_.next(chunk, admission_.on() ? &gate : nullptr)) {
    Peer& peer = at(chunk.peer);
    const TransferRequest& request = scheduler_.request(chunk.transfer);
    const LaneId lane_id = chunk.chained             ? peer.bulk.lane
                           : fetches(request.opcode) ? fetch_lane(peer)
                                                     : peer.lane;
    Lane& lane = at(lane_id);
    const bool inlined =
        request.opcode == Opcode::write && chunk.length_bytes <= config_.inline_bytes;
    const SendQueue::Ticket ticket = lane.queue.post_rdma(
        {chunk.transfer, chunk.length_bytes, now, gate.take_tokens(), chunk.chained},
        !chunk.chained || chunk.last);
    out.work.push_back({.id = ticket.id,
                        .lane = lane_id,
                        .opcode = request.opcode,
                        .signalled = ticket.signalled,
                        .inlined = inlined,
                        .length_bytes = chunk.length_bytes,
                        .lkey = chunk.lkey,
                        .address = chunk.local_address,
                        .remote_address = chunk.remote_address,
                        .rkey = chunk.rkey,
                        .operand = request.operand,
                        .compare = request.compare});
    ++counters_.chunks_sent;
    if (chunk.chained) {
      if (chain_end && out.work[*chain_end].lane != lane_id) end_chain();
      chain_end = out.work.size() - 1;
    }
    if (lane_id == peer.lane) {
      if (!lane.queue.has_room(false)) scheduler_.hold_peer(chunk.peer);
    } else if (!has_bulk_room(lane)) {
      scheduler_.hold_chain(chunk.peer);
      if (fetch_lane(peer) == lane_id) scheduler_.limit_reads(chunk.peer, 0);
    }
  }
  end_chain();
  take_finished(out);
}

// The lane for the peer's gets and atomics; none while there is none yet.
LaneId Core::fetch_lane(const Peer& peer) const {
  if (!keeps_fetches_apart(peer)) return peer.lane;
  return peer.bulk.usable() ? peer.bulk.lane : LaneId::none;
}

// How many of them may be under way; 0 if none may be posted now.
std::uint32_t Core::fetches_open(const Peer& peer) const {
  const LaneId lane = fetch_lane(peer);
  if (lane == peer.lane) return peer.most_fetches;
  return lane != LaneId::none && has_bulk_room(at(lane)) ? peer.bulk.reads : 0;
}

// The peer has work for its queues, or they have room again.
void Core::let_chunks_go(Time now, Peer& peer, Outbox& out) {
  if (scheduler_.idle()) return;
  if (peer.state == PeerState::ready) {
    if (peer.fetches && keeps_fetches_apart(peer)) {
      if (peer.bulk.state == BulkState::refused) {
        return fail(now, peer, FailReason::no_resources, CompletionStatus::success, out);
      }
      want_bulk_lane(peer, out);
    }
    const Lane& lane = at(peer.lane);
    if (lane.queue.has_room(false)) {
      scheduler_.open_peer(lane.peer, fetches_open(peer));
    } else {
      scheduler_.hold_peer(lane.peer);  // frames took the room while there were no transfers
    }
    if (peer.bulk.usable() && has_bulk_room(at(peer.bulk.lane))) {
      scheduler_.open_chain(lane.peer, peer.bulk.reads);
    }
  }
  issue_chunks(now, out);
}

void Core::on_chunk(Time now, const RdmaInFlight& chunk) {
  landed(chunk);
  scheduler_.on_chunk_done(now, chunk.transfer, chunk.bytes, now - chunk.posted, chunk.chained);
}

// So much of a chain is handed over that the adapter does not run dry before software looks again,
// and no more, for what is handed over does not make way for others.
bool Core::has_bulk_room(const Lane& lane) const { return lane.queue.in_flight() < bulk_depth(); }

// The peer's lane is gone, or will be before anybody hears of this.
void Core::drop_transfers(Time now, const Peer& peer, Outbox& out) {
  scheduler_.drop_peer(id_of(peer));  // though it may have none: its next wait for its next lane
  issue_chunks(now, out);             // what it had of the budget is the others'
}

// After chunks were issued or given up.
void Core::take_finished(Outbox& out) {
  FinishedTransfer finished;
  while (scheduler_.next_finished(finished)) out.report({finished.token, !finished.failed});
  counters_.chains = scheduler_.counts().chains;
  counters_.node_read_waits = scheduler_.counts().node_stalls;
  counters_.reads_out = scheduler_.reads().chunks();
  counters_.reads_out_peak = scheduler_.reads().peak_chunks();
  counters_.read_window = scheduler_.read_window_bytes();
}

}  // namespace weir
