// A peer's further lanes for large gets: which lanes may take a chunk, and when a lane is left.
#include <algorithm>
#include <optional>

#include "transport/core/transfers.h"

namespace weir {

// How many chunks may be under way on a further lane.
std::uint32_t Transfers::room_of(const FetchLane& end) const {
  return std::min(end.reads(), lanes_.fetch_depth());
}

bool Transfers::near_is_full(const Peer& peer) const {
  std::uint32_t near = peer.transfers.outstanding(TransferKind::get);
  for (const FetchLane& end : peer.further->lanes) {
    if (end.lane() != LaneId::none) {
      near -= static_cast<std::uint32_t>(lanes_[end.lane()].queue.in_flight());
    }
  }
  return near >= near_fetches(peer);
}

// Only as many lanes as our `paths`: the peer may have made more for itself.
Spread::Lanes Transfers::usable_further(const Peer& peer) const {
  std::uint32_t usable = 0;
  for (std::uint32_t i = 0; i < config_.paths && config_.paths > 1; ++i) {
    usable |= peer.further->lanes[i].usable() ? 1u << i : 0;
  }
  return static_cast<Spread::Lanes>(usable);
}

Spread::Lanes Transfers::open_further(const Peer& peer) const {
  std::uint32_t open = usable_further(peer);
  for (std::uint32_t i = 0; i < Spread::most_lanes; ++i) {
    const FetchLane& end = peer.further->lanes[i];
    if ((open >> i & 1) != 0 && lanes_[end.lane()].queue.in_flight() >= room_of(end)) {
      open &= ~(1u << i);
    }
  }
  return static_cast<Spread::Lanes>(open);
}

// A chain goes to one lane in one go. With further lanes, chunks are dealt out singly.
bool Transfers::chains(const Peer& peer) const {
  return peer.fetch_lane.usable() && !(peer.further && usable_further(peer) != 0);
}

void Transfers::note_spread(const Now& now, Peer& peer, std::uint8_t number, std::uint64_t bytes) {
  peer.further->spread.begin(now, number - 1u, bytes);
  if (peer.spreads.linked) return;
  if (spreading_.empty()) next_look_ = now + look_interval;
  spreading_.push(&peer);
}

void Transfers::on_further_lane(const Now& now, Peer& peer, Outbox& out) {
  if (!chains(peer)) scheduler_.end_chains(peer.transfers);
  scheduler_.limit_reads(peer.transfers, fetches_open(peer));
  go_on(now, peer, out);
}

bool Transfers::leaves(const Now& now, Peer& peer, LaneId id, CompletionStatus status,
                       Outbox& out) {
  const Lane& lane = lanes_[id];
  if (lane.number == 0) return false;
  const FetchLane& end = peer.further->lanes[lane.number - 1u];
  if (end.is_leaving()) return true;  // the fence makes its work fail
  if (!end.usable() || !peer.connection.is_ready() || !connector_.may_be_the_way(status)) {
    return false;
  }
  ++counters_.lanes_left;
  fetch_lanes_.leave(now, peer, lane.number, out);
  return true;
}

void Transfers::on_timer(const Now& now, Outbox& out) {
  if (spreading_.empty() || now < next_look_) return;
  next_look_ = now + look_interval;
  Peer* next = spreading_.front();
  for (std::size_t left = spreading_.size(); left > 0; --left) {
    Peer& peer = *next;
    next = spreading_.next(next);
    const Spread& spread = peer.further->spread;
    if (spread.waiting_bytes() == 0) {
      spreading_.remove(&peer);
    } else if (peer.connection.is_ready()) {
      const std::optional<std::size_t> slow = spread.slow(now, usable_further(peer));
      if (!slow) continue;
      ++counters_.lanes_left;
      fetch_lanes_.leave(now, peer, static_cast<std::uint8_t>(*slow + 1), out);
    }
  }
}

}  // namespace weir
