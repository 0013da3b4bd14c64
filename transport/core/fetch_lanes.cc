#include "transport/core/fetch_lanes.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace weir {

using State = FetchLane::State;

void FetchLanes::want(Peer& peer, Outbox& out) {
  const Connection& connection = peer.connection;
  if (peer.fetch_lane.state_ != State::none || !connection.is_ready() || connection.left() ||
      peer.name == config_.self) {
    return;
  }
  make_end(peer, {}, out);
}

// Makes our end, and connects it if the peer's is known.
void FetchLanes::make_end(Peer& peer, const wire::LaneEnd& theirs, Outbox& out) {
  FetchLane& end = peer.fetch_lane;
  const bool known = theirs.qp_number != 0;
  if (end.lane_ == LaneId::none) end.lane_ = lanes_.make(peer.id, LaneUse::fetches);
  end.state_ = known ? State::joined : State::offered;
  end.reads_ = std::clamp(listener_.most_reads(), 1u, config_.max_rd_atomic);
  if (known) end.reads_ = std::min<std::uint32_t>(end.reads_, theirs.reads);
  end.reads_ = std::bit_floor(end.reads_);
  out.act({.kind = ConnectAction::Kind::lane_end,
           .peer = peer.id,
           .lane = end.lane_,
           .beside = peer.connection.lane(),
           .ours = end.ours_,
           .theirs = theirs,
           .reads = end.reads_});
}

void FetchLanes::on_made(const Now& now, LaneId lane, const wire::LaneEnd& ours, Outbox& out) {
  const Lane* const open = lanes_.open(lane);
  if (open == nullptr) return;
  Peer& peer = peers_[open->peer];
  FetchLane& end = peer.fetch_lane;
  if (end.lane_ != lane) return;
  if (ours.qp_number == 0) {
    refuse(now, peer, out);
  } else {
    end.ours_ = ours;
    const wire::LaneEnd theirs = std::exchange(end.theirs_, {});
    if (theirs.qp_number != 0) return make_end(peer, theirs, out);
    end.ours_.joined = end.state_ == State::joined;
    use_if_joined(now, peer, out);
  }
  sender_.owe_lane_end(peer, end.ours_, out);
}

void FetchLanes::on_ready(const Now& now, Peer& peer, Outbox& out) {
  const wire::LaneEnd theirs = std::exchange(peer.fetch_lane.theirs_, {});
  if (theirs.qp_number != 0) on_told(now, peer, theirs, out);
}

bool FetchLanes::on_told(const Now& now, Peer& peer, const wire::LaneEnd& theirs, Outbox& out) {
  FetchLane& end = peer.fetch_lane;
  const PeerState state = peer.connection.state();
  // It overtook the answer, or our question whether to part: see on_ready.
  if (state == PeerState::connecting || state == PeerState::parting) {
    end.theirs_ = theirs;
    return !theirs.joined;
  }
  if (!peer.connection.is_ready()) return true;  // we leave
  if (theirs.qp_number == 0) {
    if (end.peer_joined_) return false;
    refuse(now, peer, out);
    return true;
  }
  switch (end.state_) {
    case State::none:
      if (theirs.joined) return false;
      make_end(peer, theirs, out);
      return true;
    case State::offered:
      end.peer_joined_ = theirs.joined;
      if (end.ours_.qp_number == 0) {
        end.theirs_ = theirs;
      } else {
        make_end(peer, theirs, out);
      }
      return true;
    case State::joined:
      if (!theirs.joined || end.peer_joined_) return false;
      end.peer_joined_ = true;
      use_if_joined(now, peer, out);
      return true;
    case State::refused:  // its offer crossed our refusal, or did not know of it
      if (theirs.joined) {
        sender_.forget_lane_end(peer);
      } else {
        sender_.owe_lane_end(peer, {}, out);
      }
      return true;
  }
  return false;
}

void FetchLanes::use_if_joined(const Now& now, Peer& peer, Outbox& out) {
  if (peer.fetch_lane.usable()) listener_.on_fetch_lane(now, peer, out);
}

void FetchLanes::refuse(const Now& now, Peer& peer, Outbox& out) {
  drop(peer, out);
  peer.fetch_lane.state_ = State::refused;
  listener_.on_fetch_lane(now, peer, out);
}

void FetchLanes::fence(Peer& peer, Outbox& out) {
  sender_.forget_lane_end(peer);
  if (peer.fetch_lane.lane_ == LaneId::none) return forget(peer);
  listener_.on_fetch_lane_ends(peer);
  lanes_.fence(peer.fetch_lane.lane_, out);
}

void FetchLanes::drop(Peer& peer, Outbox& out) {
  if (peer.fetch_lane.lane_ != LaneId::none) {
    listener_.on_fetch_lane_ends(peer);
    lanes_.release(peer.fetch_lane.lane_, false, out);
  }
  sender_.forget_lane_end(peer);
  peer.fetch_lane = {};
}

}  // namespace weir
