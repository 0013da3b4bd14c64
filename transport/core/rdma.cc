// Large messages and one-sided: gets, puts and atomics. rendezvous/scheduler decides which chunk
// goes next, under one budget for all peers; here chunks become work requests of the peer's lane,
// and completions come back to it.
//
// A chunk never waits in a send queue where it could hold up frames: a peer has at most
// max_rd_atomic reads under way, and while its queue has no room but for control frames its chunks
// wait here.

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

// Posts what the budget allows.
void Core::issue_chunks(Time now, Outbox& out) {
  Chunk chunk;
  while (scheduler_.next(chunk)) {
    Peer& peer = at(chunk.peer);
    Lane& lane = at(peer.lane);
    const TransferRequest& request = scheduler_.request(chunk.transfer);
    const bool inlined =
        request.opcode == Opcode::write && chunk.length_bytes <= config_.inline_bytes;
    const WorkId id = lane.queue.post_rdma({chunk.transfer, chunk.length_bytes, now});
    out.work.push_back({.id = id,
                        .lane = peer.lane,
                        .opcode = request.opcode,
                        .signalled = true,
                        .inlined = inlined,
                        .length_bytes = chunk.length_bytes,
                        .lkey = chunk.lkey,
                        .address = chunk.local_address,
                        .remote_address = chunk.remote_address,
                        .rkey = chunk.rkey,
                        .operand = request.operand,
                        .compare = request.compare});
    ++counters_.chunks_sent;
    if (!lane.queue.has_room(false)) scheduler_.hold_peer(chunk.peer);
  }
  take_finished(out);
}

// The peer has work for its queue, or its queue has room again.
void Core::let_chunks_go(Time now, Peer& peer, Outbox& out) {
  if (scheduler_.idle()) return;
  if (peer.state == PeerState::ready) {
    const Lane& lane = at(peer.lane);
    if (lane.queue.has_room(false)) {
      scheduler_.open_peer(lane.peer, config_.max_rd_atomic);
    } else {
      scheduler_.hold_peer(lane.peer);  // frames took the room while there were no transfers
    }
  }
  issue_chunks(now, out);
}

void Core::on_chunk(Time now, const RdmaInFlight& chunk) {
  scheduler_.on_chunk_done(now, chunk.transfer, chunk.bytes, now - chunk.posted);
}

// The peer's lane is gone, or will be before anybody hears of this.
void Core::drop_transfers(Time now, const Peer& peer, Outbox& out) {
  scheduler_.drop_peer(id_of(peer));  // though it may have none: its next wait for its next lane
  issue_chunks(now, out);             // what it had of the budget is the others'
}

// After chunks were issued or given up.
void Core::take_finished(Outbox& out) {
  FinishedTransfer finished;
  while (scheduler_.next_finished(finished)) out.report({finished.token, !finished.failed});
  counters_.reads_out = scheduler_.reads().chunks();
  counters_.reads_out_peak = scheduler_.reads().peak_chunks();
  counters_.read_window = scheduler_.controller().window_bytes();
}

}  // namespace weir
