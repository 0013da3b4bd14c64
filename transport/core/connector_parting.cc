// Connections that end because nobody needs them: leaving, and parting for want of places.
#include "transport/core/connector.h"

namespace weir {

// Pending frames go out first; then this is called again. A peer that has left takes none.
void Connector::leave(const Now& now, Peer& peer, Outbox& out) {
  sender_.go_on_with_all(now, peer, out);
  if (peer.connection.state_ == PeerState::left) return finish(now, peer, out);
  if (listener_.has_work(peer)) return;
  move_to(peer, PeerState::closing);
  say_goodbye(now, peer, out);
}

// If the goodbye finds no slot, this is called again.
void Connector::say_goodbye(const Now& now, Peer& peer, Outbox& out) {
  if (!sender_.send_goodbye(peer, out)) return;
  move_to(peer, PeerState::said);
  if (is_drained(peer)) finish(now, peer, out);
}

void Connector::finish(const Now& now, Peer& peer, Outbox& out) {
  drop_lane(peer, out);
  move_to(peer, PeerState::closed);
  end_session(peer);
  tell(peer, LinkNews::Kind::parted, out);
  listener_.on_gone(now, peer, out);
  begin_waiting(now, out);
}

// ---- parting ----

// Begins the connections that wait for a place, except those that are no longer needed.
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
      const bool may_ask =
          now >= connection.stays_until_ && !connection.asked_to_part_;  // else it gets an answer
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

// Each side's question answers the other's.
void Connector::part_as_both_ask(const Now& now, Peer& peer, Outbox& out) {
  peer.connection.asked_to_part_ = false;
  move_to(peer, PeerState::parted);
  if (is_drained(peer)) part(now, peer, out);
}

void Connector::agree_to_part(Peer& peer, Outbox& out) {
  const bool agrees = listener_.may_part(peer);
  if (!(agrees ? sender_.send_goodbye(peer, out) : sender_.send_stay(peer, out))) return;
  peer.connection.asked_to_part_ = false;
  if (!agrees) return;
  move_to(peer, PeerState::parted);
  listener_.on_paused(peer);
}

void Connector::stay(const Now& now, Peer& peer, Outbox& out) {
  ++counters_.connections_kept;
  peer.connection.stays_until_ = now + Places::patience * 5;
  move_to(peer, PeerState::ready);
  listener_.on_ready(now, peer, out);
  if (wants_places()) make_room(now, out);
}

// All that was posted has arrived: the peer's goodbye answers our question, or ours has arrived.
void Connector::part(const Now& now, Peer& peer, Outbox& out) {
  drop_lane(peer, out, true);
  move_to(peer, PeerState::idle);
  end_session(peer);
  tell(peer, LinkNews::Kind::parted, out);
  ++counters_.connections_parted;
  if (listener_.has_work(peer)) connect(now, peer, out);
  begin_waiting(now, out);
}

}  // namespace weir
