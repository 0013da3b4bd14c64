// What all parts of the connector share: states, deadlines and places; and how a peer is given up.
#include "transport/core/connector.h"

#include <cassert>

namespace weir {
namespace {

// The failure says that there is no connection, and not what went wrong on one.
constexpr bool is_of_connecting(FailReason reason) {
  return reason == FailReason::connect_refused || reason == FailReason::connect_timeout ||
         reason == FailReason::connect_unreachable || reason == FailReason::connect_spoilt ||
         reason == FailReason::rejected_stranger || reason == FailReason::vanished;
}

}  // namespace

void Connector::move_to(Peer& peer, PeerState state) {
  Connection& connection = peer.connection;
  assert(allowed(connection.state_, state));
  const PeerState before = connection.state_;
  const auto asks = [](PeerState one) {
    return one == PeerState::connecting || one == PeerState::waiting;
  };
  pending_ -= connection.is_pending() ? 1 : 0;
  leaving_ -= connection.is_leaving() ? 1 : 0;
  asking_ -= asks(before) ? 1 : 0;
  connection.state_ = state;
  asking_ += asks(state) ? 1 : 0;
  pending_ += connection.is_pending() ? 1 : 0;
  leaving_ += connection.is_leaving() ? 1 : 0;
  keep_due(peer);
  if (peer.name != config_.self) keep_place(peer, before);
}

// A connection to ourselves takes no place.
void Connector::keep_place(Peer& peer, PeerState before) {
  const Connection& connection = peer.connection;
  const auto has_place = [](PeerState state) {
    return state != PeerState::idle && state != PeerState::closed && state != PeerState::failed;
  };
  if (has_place(connection.state_) && !has_place(before)) {
    places_.take(connection.state_ == PeerState::connecting);
    counters_.connections_over += places_.over() ? 1 : 0;
  }
  if (!has_place(connection.state_) && has_place(before)) places_.give();
  counters_.connections_open = places_.taken();
  if (before == PeerState::ready) places_.remove(peer);
  if (connection.is_ready()) places_.add(peer);
  if (peer.wants.linked && connection.state_ != PeerState::idle) wants_.remove(&peer);
}

void Connector::set_deadline(Peer& peer, Time deadline) {
  peer.connection.attempt_deadline_ = deadline;
  keep_due(peer);
}

void Connector::keep_due(Peer& peer) {
  Connection& connection = peer.connection;
  const Time due = connection.is_pending() ? connection.attempt_deadline_ : Time::never();
  if (due == connection.due_) return;
  if (connection.due_ != Time::never()) due_.erase({connection.due_, peer.id});
  if (due != Time::never()) due_.emplace(due, peer.id);
  connection.due_ = due;
}

// Each that is given up fails, or gets a later deadline.
void Connector::on_timer(const Now& now, Outbox& out) {
  while (!due_.empty() && now >= due_.begin()->first) {
    give_up_attempt(now, peers_[due_.begin()->second], out);
  }
  if (!wants_places() || now < next_look_) return;
  begin_waiting(now, out);
  make_room(now, out);
}

void Connector::fail(const Now& now, Peer& peer, const Failure& why, Outbox& out) {
  const PeerState state = peer.connection.state_;
  if (state == PeerState::failed || state == PeerState::closed) return;
  if (is_being_fenced(peer)) {
    if (peer.connection.noted_ == nullptr) peer.connection.noted_ = std::make_unique<Failure>(why);
    peer.connection.after_ = AfterFence::fail;
    return;
  }
  const bool leaves = peer.connection.is_resuming()
                          ? peer.connection.broke_in_ == PeerState::closing
                          : state == PeerState::closing;
  if (leaves) return finish_close(now, peer, out);
  ++counters_.peer_failures;
  const Connection& connection = peer.connection;
  // Why the session did not go on says less than why it broke.
  const Failure first{peer.id, connection.broke_, connection.broke_with_, {}, {}};
  const bool resuming = connection.is_resuming() && connection.broke_ != FailReason::none &&
                        is_of_connecting(why.reason);
  Failure told = resuming ? first : why;
  told.lost_work = listener_.has_work(peer) || (connection.lane_ != LaneId::none &&
                                                !lanes_[connection.lane_].queue.empty());
  listener_.describe_transfers(peer, told);
  move_to(peer, config_.among_rails ? PeerState::closed : PeerState::failed);
  out.report(told);
  drop_lane(peer, out);
  end_session(peer);
  peer.connection.moved_ = config_.among_rails;
  tell(peer, LinkNews::Kind::over, out, told.reason);
  listener_.on_gone(now, peer, out);
  begin_waiting(now, out);
}

}  // namespace weir
