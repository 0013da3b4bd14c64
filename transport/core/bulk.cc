// The second lane of a peer, for chains of reads. A chain on the first one would hold up the frames
// behind it: a queue pair has only so many reads under way, and what comes after them waits.
//
// Its two ends tell each other their queue pairs in frames on the first lane; PROTOCOL.md §5 has
// the steps. Without it reads go chunk by chunk, so nothing depends on it, and nobody waits for it.
//
// Except on adapters that must not have sends or writes before a fetch (Config::fetches_apart):
// there all gets and atomics of a peer go over it, and wait for it. If it cannot be made, a peer
// that needs it fails.

#include <algorithm>
#include <bit>
#include <utility>

#include "transport/core/core.h"

namespace weir {

// A get that would be a chain asks for the lane; this one still goes without it.
void Core::want_bulk_lane(Peer& peer, Outbox& out) {
  if (peer.bulk.state != BulkState::none || peer.state != PeerState::ready || peer.left ||
      peer.name == config_.self) {
    return;
  }
  make_bulk_end(peer, {}, out);
}

// A chain is bounded by its lane alone. Kept apart, what is scheduled goes over it, too, and must
// not get less than c: fixed, the next power of two, for which software keeps to c and which has no
// chains; while c moves, what it may come to on a way that holds no more than it would queue.
std::uint32_t Core::most_bulk_reads() const {
  if (!config_.fetches_apart) return scheduler_.chain_reads();
  const BudgetController& controller = scheduler_.controller();
  const auto reads = controller.adaptive()
                         ? controller.most_usual_bytes() / config_.transfers.plan.chunk_bytes
                         : controller.reads();
  return std::bit_ceil(
      std::clamp<std::uint32_t>(static_cast<std::uint32_t>(reads), 1u, config_.max_rd_atomic));
}

// Makes our end, and connects it if the peer's is known.
void Core::make_bulk_end(Peer& peer, const wire::LaneEnd& theirs, Outbox& out) {
  Bulk& bulk = peer.bulk;
  if (bulk.lane == LaneId::none) bulk.lane = new_lane(peer);
  bulk.state = theirs.qp_number == 0 ? BulkState::offered : BulkState::joined;
  bulk.reads = std::clamp(most_bulk_reads(), 1u, config_.max_rd_atomic);
  if (theirs.qp_number != 0) bulk.reads = std::min<std::uint32_t>(bulk.reads, theirs.reads);
  bulk.reads = std::bit_floor(bulk.reads);
  out.act({.kind = ConnectAction::Kind::bulk,
           .peer = id_of(peer),
           .lane = bulk.lane,
           .beside = peer.lane,
           .ours = bulk.ours,
           .theirs = theirs,
           .reads = bulk.reads});
}

void Core::on_bulk_end(Time now, LaneId lane, const wire::LaneEnd& ours, Outbox& out) {
  if (open_lane(lane) == nullptr) return;
  Peer& peer = at(at(lane).peer);
  if (peer.bulk.lane != lane) return;
  if (ours.qp_number == 0) {
    refuse_bulk(now, peer, out);
  } else {
    peer.bulk.ours = ours;
    if (const wire::LaneEnd theirs = std::exchange(peer.bulk.theirs, {}); theirs.qp_number != 0) {
      return make_bulk_end(peer, theirs, out);
    }
    peer.bulk.ours.joined = peer.bulk.state == BulkState::joined;
    use_bulk(now, peer, out);
  }
  peer.bulk.to_tell = true;
  tell_bulk_end(peer, out);
}

// What the peer says of its end. False if no correct peer says so.
bool Core::take_bulk_end(Time now, Peer& peer, const wire::LaneEnd& theirs, Outbox& out) {
  Bulk& bulk = peer.bulk;
  if (peer.state == PeerState::connecting) {  // it overtook the answer, which `become_ready` is for
    bulk.theirs = theirs;
    return !theirs.joined;
  }
  if (peer.state != PeerState::ready) return true;  // we leave
  if (theirs.qp_number == 0) {
    if (bulk.peer_joined) return false;
    refuse_bulk(now, peer, out);
    return true;
  }
  switch (bulk.state) {
    case BulkState::none:
      if (theirs.joined) return false;
      make_bulk_end(peer, theirs, out);
      return true;
    case BulkState::offered:
      bulk.peer_joined = theirs.joined;
      if (bulk.ours.qp_number == 0) {
        bulk.theirs = theirs;
      } else {
        make_bulk_end(peer, theirs, out);
      }
      return true;
    case BulkState::joined:
      if (!theirs.joined || bulk.peer_joined) return false;
      bulk.peer_joined = true;
      use_bulk(now, peer, out);
      return true;
    case BulkState::refused:
      bulk.to_tell = !theirs.joined;  // its offer crossed our refusal, or did not know of it
      tell_bulk_end(peer, out);
      return true;
  }
  return false;
}

// Both ends are connected: what the peer would not answer yet would be repeated only after the
// timeout of the adapter.
void Core::use_bulk(Time now, Peer& peer, Outbox& out) {
  if (!peer.bulk.usable()) return;
  ++counters_.bulk_lanes;
  scheduler_.open_chain(at(peer.lane).peer, peer.bulk.reads);
  let_chunks_go(now, peer, out);
}

void Core::refuse_bulk(Time now, Peer& peer, Outbox& out) {
  drop_bulk_lane(peer, out);
  peer.bulk.state = BulkState::refused;
  let_chunks_go(now, peer, out);
}

// Later, if there is no credit now.
void Core::tell_bulk_end(Peer& peer, Outbox& out) {
  if (!peer.bulk.to_tell || peer.state != PeerState::ready || peer.left) return;
  peer.bulk.to_tell = !send_control(peer, wire::FrameKind::lane_end, 0, out);
  note_due(peer);
}

void Core::drop_bulk_lane(Peer& peer, Outbox& out) {
  if (peer.bulk.lane != LaneId::none) {
    scheduler_.close_chain(at(peer.bulk.lane).peer);
    release_lane(peer.bulk.lane, out);
  }
  peer.bulk = {};
}

}  // namespace weir
