#include "transport/core/fetch_lanes.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

namespace weir {

using State = FetchLane::State;

// Allocates the further lanes at the first call for one of them.
FetchLane& FetchLanes::end_of(Peer& peer, std::uint8_t number) {
  if (number == 0) return peer.fetch_lane;
  if (!peer.further) peer.further = std::make_unique<FurtherLanes>();
  return peer.further->lanes[number - 1u];
}

void FetchLanes::want(Peer& peer, Outbox& out) {
  const Connection& connection = peer.connection;
  if (peer.fetch_lane.state_ != State::none || !connection.is_ready() || connection.left() ||
      peer.name == config_.self) {
    return;
  }
  make_end(peer, 0, std::nullopt, out);
}

void FetchLanes::want_further(const Now& now, Peer& peer, Outbox& out) {
  const Connection& connection = peer.connection;
  if (!connection.is_ready() || connection.left() || peer.name == config_.self) return;
  const std::uint32_t count =
      std::min<std::uint32_t>(config_.paths, connection.card().further_lanes);
  for (std::uint8_t number = 1; number <= count; ++number) {
    const FetchLane& end = end_of(peer, number);
    if (end.state_ == State::none && peer.further->spread.may_be_made(now, number - 1u)) {
      make_end(peer, number, std::nullopt, out);
    }
  }
}

// Makes our end, and connects it if the peer's is known.
void FetchLanes::make_end(Peer& peer, std::uint8_t number,
                          const std::optional<wire::LaneEnd>& theirs, Outbox& out) {
  FetchLane& end = end_of(peer, number);
  if (end.lane_ == LaneId::none) {
    end.lane_ = lanes_.make(peer.id, LaneUse::fetches, number);
    if (number > 0) peer.further->spread.begin_anew(number - 1u);
  }
  end.state_ = theirs ? State::joined : State::offered;
  end.their_pair_ = theirs ? theirs->qp_number : 0;
  const std::uint32_t most = number == 0 ? listener_.most_reads() : config_.max_rd_atomic;
  end.reads_ = std::clamp(most, 1u, config_.max_rd_atomic);
  if (theirs) end.reads_ = std::min<std::uint32_t>(end.reads_, theirs->reads);
  end.reads_ = std::bit_floor(end.reads_);
  wire::LaneEnd ours = end.ours_;
  ours.number = number;
  out.act({.kind = ConnectAction::Kind::lane_end,
           .peer = peer.id,
           .lane = end.lane_,
           .beside = peer.connection.lane(),
           .ours = ours,
           .theirs = theirs.value_or(wire::LaneEnd{}),
           .reads = end.reads_});
}

void FetchLanes::on_made(const Now& now, LaneId lane, const wire::LaneEnd& ours, Outbox& out) {
  const Lane* const open = lanes_.open(lane);
  if (open == nullptr) return;
  Peer& peer = peers_[open->peer];
  const std::uint8_t number = open->number;
  FetchLane& end = end_of(peer, number);
  if (end.lane_ != lane || end.state_ == State::leaving) return;
  if (!ours.exists()) {
    if (number == 0) {
      refuse(now, peer, out);
      return owe(peer, {}, out);
    }
    // Declines the peer's offer, if there was one. Otherwise the peer knows of nothing.
    const std::uint32_t theirs = end.untaken_ ? end.untaken_->qp_number : end.their_pair_;
    peer.further->spread.leave(now, number - 1u);
    drop_end(end, out);
    end.left_pair_ = theirs;
    if (theirs != 0) owe(peer, {.psn = theirs, .number = number}, out);
    return;
  }
  end.ours_ = ours;
  end.ours_.number = number;
  const std::optional<wire::LaneEnd> theirs = std::exchange(end.untaken_, std::nullopt);
  if (theirs) return make_end(peer, number, theirs, out);
  end.ours_.joined = end.state_ == State::joined;
  use_if_joined(now, peer, number, out);
  owe(peer, end.ours_, out);
}

void FetchLanes::on_ready(const Now& now, Peer& peer, Outbox& out) {
  const auto look = [&](FetchLane& end) {
    const std::optional<wire::LaneEnd> told = std::exchange(end.untaken_, std::nullopt);
    if (told) on_told(now, peer, *told, out);
  };
  look(peer.fetch_lane);
  if (!peer.further) return;
  for (FetchLane& end : peer.further->lanes) look(end);
}

bool FetchLanes::on_told(const Now& now, Peer& peer, const wire::LaneEnd& theirs, Outbox& out) {
  FetchLane& end = end_of(peer, theirs.number);
  const PeerState state = peer.connection.state();
  // It overtook the answer, or our question whether to part: see on_ready.
  if (state == PeerState::connecting || state == PeerState::parting) {
    end.untaken_ = theirs;
    return !theirs.joined;
  }
  if (!peer.connection.is_ready()) return true;  // we leave
  if (!theirs.exists() && theirs.number > 0) {
    on_none(now, peer, theirs, out);
    return true;
  }
  if (!theirs.exists()) {
    if (end.peer_joined_) return false;
    refuse(now, peer, out);
    return true;
  }
  return theirs.joined ? on_joined(now, peer, end, theirs, out)
                       : on_offer(now, peer, end, theirs, out);
}

// Connects our end to theirs, once it is made.
void FetchLanes::join(Peer& peer, FetchLane& end, const wire::LaneEnd& theirs, Outbox& out) {
  if (!end.is_made()) {
    end.untaken_ = theirs;
  } else {
    make_end(peer, theirs.number, theirs, out);
  }
}

// The peer has made an end, and knows of none of ours yet.
bool FetchLanes::on_offer(const Now& now, Peer& peer, FetchLane& end, const wire::LaneEnd& theirs,
                          Outbox& out) {
  switch (end.state_) {
    case State::none: make_end(peer, theirs.number, theirs, out); return true;
    case State::offered: join(peer, end, theirs, out); return true;
    case State::joined:  // the peer has left the pair that our end is connected to
      if (theirs.number == 0 || theirs.qp_number == end.their_pair_) return false;
      begin_leaving(peer, end, out);
      listener_.on_further_lane(now, peer, out);
      [[fallthrough]];
    case State::leaving: end.untaken_ = theirs; return true;
    case State::refused:  // its offer crossed our refusal, or did not know of it
      owe(peer, {}, out);
      return true;
  }
  return false;
}

// The peer has connected its end to ours.
bool FetchLanes::on_joined(const Now& now, Peer& peer, FetchLane& end, const wire::LaneEnd& theirs,
                           Outbox& out) {
  switch (end.state_) {
    case State::none:
    case State::leaving: return theirs.number > 0 && theirs.qp_number == end.left_pair_;
    case State::offered:
      end.peer_joined_ = true;
      join(peer, end, theirs, out);
      return true;
    case State::joined:
      if (end.peer_joined_) return false;
      end.peer_joined_ = true;
      use_if_joined(now, peer, theirs.number, out);
      return true;
    case State::refused:
      if (peer.outgoing.owed_lane() == 0) sender_.forget_lane_end(peer);
      return true;
  }
  return false;
}

// The peer has left a further lane, or declines our offer. If it names a pair that we no longer
// have, the news is old.
void FetchLanes::on_none(const Now& now, Peer& peer, const wire::LaneEnd& theirs, Outbox& out) {
  FetchLane& end = end_of(peer, theirs.number);
  if (end.ours_.qp_number != theirs.psn) return;
  if (end.state_ != State::offered && end.state_ != State::joined) return;
  peer.further->spread.leave(now, theirs.number - 1u);
  begin_leaving(peer, end, out);
  listener_.on_further_lane(now, peer, out);
}

void FetchLanes::leave(const Now& now, Peer& peer, std::uint8_t number, Outbox& out) {
  FetchLane& end = end_of(peer, number);
  if (!end.usable()) return;
  peer.further->spread.leave(now, number - 1u);
  begin_leaving(peer, end, out);
  owe(peer, {.psn = end.left_pair_, .number = number}, out);
  listener_.on_further_lane(now, peer, out);
}

// The lane takes no more work, and the peer is told nothing more of this end.
void FetchLanes::begin_leaving(Peer& peer, FetchLane& end, Outbox& out) {
  end.left_pair_ = end.their_pair_;
  end.state_ = State::leaving;
  end.untaken_.reset();
  const std::uint8_t number = lanes_[end.lane_].number;
  peer.further->owed = static_cast<std::uint16_t>(peer.further->owed & ~(1u << number));
  if (peer.outgoing.owes_lane_end() && peer.outgoing.owed_lane() == number) {
    sender_.forget_lane_end(peer);
  }
  lanes_.fence(end.lane_, out);
}

void FetchLanes::use_if_joined(const Now& now, Peer& peer, std::uint8_t number, Outbox& out) {
  if (!end_of(peer, number).usable()) return;
  number == 0 ? listener_.on_fetch_lane(now, peer, out) : listener_.on_further_lane(now, peer, out);
}

// There will be no first lane on this connection.
void FetchLanes::refuse(const Now& now, Peer& peer, Outbox& out) {
  FetchLane& end = peer.fetch_lane;
  if (end.lane_ != LaneId::none) listener_.on_fetch_lane_ends(peer);
  drop_end(end, out);
  if (peer.outgoing.owed_lane() == 0) sender_.forget_lane_end(peer);
  end.state_ = State::refused;
  listener_.on_fetch_lane(now, peer, out);
}

// ---- what the peer has to be told ----

// Lane ends are sent one at a time. A newer one of the same lane replaces the older one.
void FetchLanes::owe(Peer& peer, const wire::LaneEnd& end, Outbox& out) {
  if (end.number == 0 && !peer.further) return sender_.owe_lane_end(peer, end, out);
  peer.further->owed_ends[end.number] = end;
  if (peer.outgoing.owes_lane_end() && peer.outgoing.owed_lane() == end.number) {
    sender_.forget_lane_end(peer);
  }
  peer.further->owed = static_cast<std::uint16_t>(peer.further->owed | 1u << end.number);
  tell_ends(peer, out);
}

void FetchLanes::tell_ends(Peer& peer, Outbox& out) {
  sender_.tell_lane_end(peer, out);
  if (!peer.further) return;
  std::uint16_t& owed = peer.further->owed;
  while (owed != 0 && !peer.outgoing.owes_lane_end()) {
    const auto number = static_cast<std::uint8_t>(std::countr_zero(owed));
    owed = static_cast<std::uint16_t>(owed & (owed - 1));
    sender_.owe_lane_end(peer, peer.further->owed_ends[number], out);
  }
}

void FetchLanes::forget_owed(Peer& peer) {
  sender_.forget_lane_end(peer);
  if (peer.further) peer.further->owed = 0;
}

// ---- their end ----

void FetchLanes::fence_end(FetchLane& end, Outbox& out) {
  end.untaken_.reset();
  if (end.lane_ == LaneId::none) {
    end = {};
  } else if (end.state_ != State::leaving) {
    end.state_ = State::leaving;
    lanes_.fence(end.lane_, out);
  }
}

void FetchLanes::fence(Peer& peer, Outbox& out) {
  forget_owed(peer);
  if (peer.fetch_lane.lane_ != LaneId::none) listener_.on_fetch_lane_ends(peer);
  fence_end(peer.fetch_lane, out);
  if (!peer.further) return;
  for (FetchLane& end : peer.further->lanes) fence_end(end, out);
}

void FetchLanes::forget(const Now& now, Peer& peer, std::uint8_t number, Outbox& out) {
  FetchLane& end = end_of(peer, number);
  const std::optional<wire::LaneEnd> told = end.untaken_;
  const std::uint32_t left = end.left_pair_;
  end = {};
  end.left_pair_ = left;
  if (!peer.connection.is_ready()) return forget_owed(peer);  // it may have been made meanwhile
  if (told) on_told(now, peer, *told, out);
}

// A leaving lane is being destroyed already, so it is only abandoned.
void FetchLanes::drop_end(FetchLane& end, Outbox& out) {
  if (end.state_ == State::leaving) {
    lanes_.abandon(end.lane_, out);
  } else if (end.lane_ != LaneId::none) {
    lanes_.release(end.lane_, false, out);
  }
  end = {};
}

void FetchLanes::drop(Peer& peer, Outbox& out) {
  if (peer.fetch_lane.lane_ != LaneId::none) listener_.on_fetch_lane_ends(peer);
  drop_end(peer.fetch_lane, out);
  forget_owed(peer);
  if (!peer.further) return;
  for (FetchLane& end : peer.further->lanes) drop_end(end, out);
  peer.further->spread.clear();
}

}  // namespace weir
