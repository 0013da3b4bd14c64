// Connections that end because nobody needs them: leaving, and parting for want of places.
#include "transport/core/connector.h"

namespace weir {

void Connector::close(const Now& now, Peer& peer, Outbox& out) {
  switch (peer.connection.state_) {
    case PeerState::idle:
      if (!peer.wants.linked) move_to(peer, PeerState::closed);
      return;
    case PeerState::parting:  // what comes of it, comes soon
    case PeerState::parted: return try_finish_part(now, peer, out);
    case PeerState::closed:
    case PeerState::failed: return;
    case PeerState::closing:
      try_finish_close(now, peer, out);  // the goodbye may have found no slot
      return;
    case PeerState::broken: return;
    case PeerState::connecting:
    case PeerState::waiting:
    case PeerState::accepting:
    case PeerState::held:
      if (listener_.has_work(peer)) return;
      if (!peer.connection.in_session_ || peer.connection.moved_) finish_close(now, peer, out);
      return;  // otherwise call again: what is pending has to go out first
    case PeerState::ready:
      sender_.go_on_with_all(now, peer, out);
      if (listener_.has_work(peer) && !peer.connection.left_) return;  // likewise
      move_to(peer, PeerState::closing);
      try_finish_close(now, peer, out);
      return;
  }
}

// Sends the goodbye if it was not sent yet, and ends when everything posted is delivered.
void Connector::try_finish_close(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  if (connection.left_) return finish_close(now, peer, out);
  if (!connection.goodbye_sent_) connection.goodbye_sent_ = sender_.send_goodbye(peer, out);
  if (connection.goodbye_sent_ && lanes_[connection.lane_].queue.empty()) {
    finish_close(now, peer, out);
  }
}

void Connector::finish_close(const Now& now, Peer& peer, Outbox& out) {
  if (is_being_fenced(peer)) {
    peer.connection.is_given_up_ = true;
    peer.connection.after_ = AfterFence::end;
    return;
  }
  drop_lane(peer, out);
  move_to(peer, PeerState::closed);
  end_session(peer);
  tell(peer, LinkNews::Kind::parted, out);
  listener_.on_gone(now, peer, out);
  begin_waiting(now, out);
}

void Connector::abandon(const Now& now, Peer& peer, Outbox& out) {
  if (peer.connection.state_ != PeerState::closed) finish_close(now, peer, out);
}

// ---- parting ----

// Those that waited begin; one that nothing goes to any more need not.
void Connector::begin_waiting(const Now& now, Outbox& out) {
  while (!wants_.empty() && places_.may_ask(now.time(), asking_)) {
    Peer& peer = *wants_.pop();
    if (listener_.has_work(peer) || peer.connection.wanted_ahead_) begin(now, peer, out);
  }
}

// Asks idle connections to part, as many as places are wanted.
void Connector::make_room(const Now& now, Outbox& out) {
  if (now < none_before_) return;
  next_look_ = now + Places::patience;
  const auto waiting = static_cast<std::uint32_t>(wants_.size()) + requests_waiting_;
  for (std::uint32_t left = places_.lacking(waiting, leaving_); left > 0; --left) {
    Peer* const peer = places_.next_unused([&](Peer& one) {
      const Connection& connection = one.connection;
      const bool may_ask = now >= connection.stays_until_ && !connection.left_ &&
                           !connection.asked_to_part_;  // it gets its answer
      return may_ask && listener_.may_part(one) && sender_.send_part(one, out);
    });
    if (peer == nullptr) {
      next_look_ = none_before_ = now + Places::patience / 8;
      return;
    }
    move_to(*peer, PeerState::parting);
    listener_.on_paused(*peer);
  }
}

void Connector::answer_part(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  if (connection.state_ == PeerState::parting) {  // both asked: that is both answers
    connection.asked_to_part_ = false;
    connection.left_ = true;
    move_to(peer, PeerState::parted);
    return try_finish_part(now, peer, out);
  }
  if (!connection.is_ready()) return;  // not yet, or we leave anyway
  const bool agrees = listener_.may_part(peer);
  if (!(agrees ? sender_.send_goodbye(peer, out) : sender_.send_stay(peer, out))) return;
  connection.asked_to_part_ = false;
  if (!agrees) return;
  connection.left_ = true;
  move_to(peer, PeerState::parted);
  listener_.on_paused(peer);
}

bool Connector::on_stay(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  if (connection.state_ == PeerState::broken) return connection.broke_in_ == PeerState::parting;
  if (connection.state_ != PeerState::parting) return false;
  ++counters_.connections_kept;
  connection.stays_until_ = now + Places::patience * 5;
  move_to(peer, PeerState::ready);
  listener_.on_ready(now, peer, out);
  if (wants_places()) make_room(now, out);
  return true;
}

// The peer's goodbye answers our question, so all that we sent has arrived. Who agreed waits until
// its goodbye has arrived.
void Connector::try_finish_part(const Now& now, Peer& peer, Outbox& out) {
  const Connection& connection = peer.connection;
  const bool answered = connection.state_ == PeerState::parting && connection.left_;
  const bool drained =
      connection.state_ == PeerState::parted && lanes_[connection.lane_].queue.empty();
  if (answered || drained) end_left(now, peer, out);
}

// All that was posted has arrived.
void Connector::end_part(Peer& peer, Outbox& out) {
  drop_lane(peer, out, true);
  move_to(peer, PeerState::idle);
  end_session(peer);
  tell(peer, LinkNews::Kind::parted, out);
  ++counters_.connections_parted;
}

// The peer has left, and we have nothing more for this connection.
void Connector::end_left(const Now& now, Peer& peer, Outbox& out) {
  if (!peer.connection.is_leaving()) return finish_close(now, peer, out);
  part(now, peer, out);
}

void Connector::part(const Now& now, Peer& peer, Outbox& out) {
  end_part(peer, out);
  if (listener_.has_work(peer)) connect(now, peer, out);
  begin_waiting(now, out);
}

}  // namespace weir
