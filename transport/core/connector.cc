#include "transport/core/connector.h"

#include <algorithm>
#include <cassert>

namespace weir {

using Kind = ConnectAction::Kind;

void Connector::move_to(Peer& peer, PeerState state) {
  Connection& connection = peer.connection;
  assert(allowed(connection.state_, state));
  const PeerState before = connection.state_;
  pending_ -= connection.is_pending() ? 1 : 0;
  leaving_ -= connection.is_leaving() ? 1 : 0;
  asking_ -= before == PeerState::connecting ? 1 : 0;
  connection.state_ = state;
  asking_ += state == PeerState::connecting ? 1 : 0;
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

// ---- making them ----

// Makes room in the window for one more peer and greets it with its first credits.
wire::Hello Connector::hello_to(Peer& peer, Outbox& out) {
  receiver_.post(out);
  wire::Hello hello;
  hello.from = config_.self;
  hello.to = peer.name;
  hello.buffer_bytes = config_.buffer_bytes;
  hello.credits = static_cast<std::uint16_t>(receiver_.first_credits(peer.share));
  hello.control_credits = static_cast<std::uint8_t>(config_.credits.control_reserve);
  hello.fetches = static_cast<std::uint8_t>(config_.fetches_answered);
  return hello;
}

// The smaller of what we can start and what the peer's adapter answers. [IBTA 9.4.3]
void Connector::agree_on_fetches(Peer& peer, std::uint32_t answered) {
  peer.connection.most_fetches_ = std::clamp(answered, 1u, config_.max_rd_atomic);
}

void Connector::connect(const Now& now, Peer& peer, Outbox& out) {
  if (peer.wants.linked) return;
  if (peer.name == config_.self || places_.may_ask(now.time(), asking_)) {
    return begin(now, peer, out);
  }
  if (peer.connection.state_ == PeerState::closed) move_to(peer, PeerState::idle);
  wants_.push(&peer);
  make_room(now, out);
}

void Connector::begin(const Now& now, Peer& peer, Outbox& out) {
  peer.connection.since_ = now;
  peer.connection.silences_ = 0;
  ask(now, peer, out);
}

// An attempt gets twice the time of one that nobody answered, and up to a quarter more, so that
// those who were not heard at the same time come back one by one. What would leave no time for
// another attempt belongs to this one.
Time Connector::deadline_of_attempt(const Now& now, const Peer& peer) const {
  const Connection& connection = peer.connection;
  const Time end = connection.since_ + config_.connect_timeout;
  const Duration doubled{config_.attempt_timeout.ns << std::min(connection.silences_, 16u)};
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  const std::uint64_t drawn =
      ((std::uint64_t{config_.self.rank} << 32 | peer.name.rank) + connection.silences_) * odd;
  const Duration time{doubled.ns + doubled.ns / 1024 * static_cast<std::int64_t>(drawn >> 56)};
  const Time deadline = now + time;
  return deadline + time / 2 < end ? deadline : std::max(end, now + config_.attempt_timeout);
}

// Asks the peer, whose connection is idle or to be asked for again.
void Connector::ask(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  set_deadline(peer, deadline_of_attempt(now, peer));
  connection.trouble_ = FailReason::connect_timeout;
  connection.asked_to_part_ = false;  // on an earlier lane
  move_to(peer, PeerState::connecting);
  receiver_.admit(peer.share, out);
  connection.lane_ = lanes_.make(peer.id, LaneUse::frames);
  sender_.begin(peer);  // an earlier attempt may have brought credits
  // At least the time: numbers must rise even if this process has forgotten the earlier ones.
  connection.attempt_ =
      std::max(connection.attempt_ + 1, static_cast<std::uint64_t>(now.time().ns));
  wire::Hello hello = hello_to(peer, out);
  hello.key = connection.key();
  hello.attempt = connection.attempt_;
  out.act({.kind = peer.name == config_.self ? Kind::loop : Kind::connect,
           .peer = peer.id,
           .lane = connection.lane_,
           .hello = hello});
}

bool Connector::may_take_request(const Now& now, PeerName from, std::uint32_t waiting,
                                 Outbox& out) {
  const PeerId known = peers_.find(from);
  const bool has_place = known != PeerId::none && !peers_[known].connection.is_idle();
  if (has_place || places_.may_begin(now.time())) {
    requests_waiting_ = waiting - 1;
    return true;
  }
  requests_waiting_ = waiting;
  make_room(now, out);
  return false;
}

std::optional<wire::Reject> Connector::refusal(const wire::Hello& hello) const {
  if (hello.to != config_.self || hello.from == config_.self || hello.key != config_.key) {
    return wire::Reject::stranger;
  }
  if (wire::common_version(hello.protocol_min, hello.protocol_max) == 0) {
    return wire::Reject::version;
  }
  if (hello.buffer_bytes != config_.buffer_bytes) return wire::Reject::buffer;
  return std::nullopt;
}

void Connector::on_request(const Now& now, RequestId request, const wire::Hello& hello,
                           Outbox& out) {
  const auto reject = [&](wire::Reject reason) {
    out.act({.kind = Kind::reject, .request = request, .reason = reason, .hello = hello});
  };
  if (const auto reason = refusal(hello)) return reject(*reason);

  Peer& peer = peers_.find_or_make(hello.from);
  Connection& connection = peer.connection;
  // An older request that arrives late must not end what a newer one began.
  if (hello.attempt <= connection.attempt_seen_) return reject(wire::Reject::crossed);
  switch (connection.state_) {
    case PeerState::parting:
    case PeerState::parted:
    case PeerState::closing:
    case PeerState::failed: return reject(wire::Reject::closing);
    case PeerState::ready:
      if (!connection.left_) return reject(wire::Reject::crossed);
      finish_close(now, peer, out);  // it left, and is back before we heard of the disconnect
      break;
    case PeerState::connecting:
      if (connection.lane_ != LaneId::none) {
        ++counters_.connections_crossed;
        if (config_.self < peer.name) return reject(wire::Reject::crossed);
      }
      break;
    case PeerState::accepting:  // the peer asks again: our first answer was lost
    case PeerState::idle:
    case PeerState::closed: break;
  }
  const Time since = connection.is_pending() ? connection.since_ : now.time();
  if (!connection.is_pending()) connection.silences_ = 0;
  drop_lane(peer, out);
  end_session(peer);
  connection.since_ = since;
  // The connection manager repeats our answer, so this deadline only bounds its silence. A deadline
  // shorter than the asker's would break connections that the asker believes in.
  set_deadline(peer, now + config_.connect_timeout);
  move_to(peer, PeerState::accepting);
  connection.attempt_seen_ = hello.attempt;
  receiver_.admit(peer.share, out);
  connection.lane_ = lanes_.make(peer.id, LaneUse::frames);
  sender_.grant(peer, hello.credits, hello.control_credits);
  agree_on_fetches(peer, hello.fetches);
  wire::Hello answer = hello_to(peer, out);
  answer.key = config_.key;
  answer.attempt = hello.attempt;
  out.act({.kind = Kind::accept,
           .peer = peer.id,
           .lane = connection.lane_,
           .request = request,
           .hello = answer});
  ++counters_.connections_accepted;
}

void Connector::on_answer(const Now& now, LaneId lane, const wire::Hello& hello, Outbox& out) {
  Peer* const peer = peer_of(lane);
  if (peer == nullptr || peer->connection.state_ != PeerState::connecting) return;
  if (hello.from != peer->name || hello.to != config_.self || hello.key != peer->connection.key() ||
      hello.attempt != peer->connection.attempt_) {
    return fail(now, *peer, FailReason::rejected_stranger, out);
  }
  if (wire::common_version(hello.protocol_min, hello.protocol_max) == 0) {
    return fail(now, *peer, FailReason::rejected_version, out);
  }
  if (hello.buffer_bytes != config_.buffer_bytes) {
    return fail(now, *peer, FailReason::rejected_buffer, out);
  }
  // Adds to the credits that a frame which overtook the answer may have brought.
  sender_.grant(*peer, hello.credits, hello.control_credits);
  agree_on_fetches(*peer, hello.fetches);
  become_ready(now, *peer, out);
}

void Connector::on_established(const Now& now, LaneId lane, Outbox& out) {
  Peer* const peer = peer_of(lane);
  if (peer == nullptr) return;
  if (peer->connection.state_ == PeerState::accepting) {
    become_ready(now, *peer, out);
  } else if (peer->connection.state_ == PeerState::connecting && peer->name == config_.self) {
    // A loop: the credits that we granted to "the peer" are ours to use.
    sender_.begin(*peer);
    sender_.grant(*peer, peer->share.out, config_.credits.control_reserve);
    agree_on_fetches(*peer, config_.fetches_answered);
    become_ready(now, *peer, out);
  }
}

void Connector::become_ready(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  move_to(peer, PeerState::ready);
  set_deadline(peer, Time::never());
  ++counters_.connections;
  counters_.connect_ns_sum += static_cast<std::uint64_t>((now - connection.since_).ns);
  listener_.on_ready(now, peer, out);
  if (connection.asked_to_part_) answer_part(now, peer, out);  // it overtook the answer
  begin_waiting(now, out);
  if (places_.over()) make_room(now, out);
}

void Connector::on_rejected(const Now& now, LaneId lane, wire::Reject reason, Outbox& out) {
  Peer* const peer = peer_of(lane);
  if (peer == nullptr || peer->connection.state_ != PeerState::connecting) return;
  switch (reason) {
    case wire::Reject::crossed:
      // The peer's own request is on its way; if it gets lost, the timer asks again.
      drop_lane(*peer, out);
      receiver_.take_back(peer->share);
      return;
    case wire::Reject::stranger: return fail(now, *peer, FailReason::rejected_stranger, out);
    case wire::Reject::version: return fail(now, *peer, FailReason::rejected_version, out);
    case wire::Reject::buffer: return fail(now, *peer, FailReason::rejected_buffer, out);
    case wire::Reject::closing: return retry_or_fail(now, *peer, FailReason::connect_refused, out);
  }
}

void Connector::on_connect_failed(const Now& now, LaneId lane, FailReason reason, Outbox& out) {
  Peer* const peer = peer_of(lane);
  if (peer == nullptr || !peer->connection.is_pending()) return;
  // No address or route may be temporary: a link or a subnet manager may come back.
  const bool passing =
      reason == FailReason::connect_timeout || reason == FailReason::connect_unreachable;
  if (passing || peer->connection.state_ == PeerState::accepting) {
    retry_or_fail(now, *peer, reason, out);
  } else {
    fail(now, *peer, reason, out);
  }
}

// Without a lane, the attempt failed earlier and only waited; report the reason of that failure.
void Connector::give_up_attempt(const Now& now, Peer& peer, Outbox& out) {
  const Connection& connection = peer.connection;
  if (connection.lane_ != LaneId::none) {
    retry_or_fail(now, peer, FailReason::connect_timeout, out);
  } else if (now - connection.since_ >= config_.connect_timeout) {
    fail(now, peer, connection.trouble_, out);
  } else {
    retry(now, peer, out);
  }
}

void Connector::retry_or_fail(const Now& now, Peer& peer, FailReason reason, Outbox& out) {
  Connection& connection = peer.connection;
  if (connection.state_ == PeerState::accepting && !listener_.has_work(peer)) {
    // The asker went away, and we have nothing to send to it.
    return finish_close(now, peer, out);
  }
  if (now - connection.since_ >= config_.connect_timeout) return fail(now, peer, reason, out);
  if (reason == FailReason::connect_refused || reason == FailReason::connect_unreachable) {
    // The peer is closing an earlier connection, or the network is changing: ask again at the
    // deadline of this attempt.
    drop_lane(peer, out);
    receiver_.take_back(peer.share);
    connection.trouble_ = reason;
    return;
  }
  retry(now, peer, out);
}

void Connector::retry(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  ++counters_.connect_retries;
  if (connection.lane_ != LaneId::none) ++connection.silences_;
  drop_lane(peer, out);
  receiver_.take_back(peer.share);
  if (connection.state_ == PeerState::accepting) move_to(peer, PeerState::connecting);
  ask(now, peer, out);
}

// ---- ending them ----

void Connector::drop_lane(Peer& peer, Outbox& out, bool delivered) {
  if (peer.connection.lane_ == LaneId::none) return;
  listener_.on_lane_ends(peer, out);
  lanes_.release(peer.connection.lane_, delivered, out);
  peer.connection.lane_ = LaneId::none;
}

void Connector::on_disconnected(const Now& now, LaneId lane, Outbox& out) {
  Peer* const peer = peer_of(lane);
  if (peer == nullptr) return;
  if (peer->connection.is_pending()) {  // the asker gave up this attempt
    return retry_or_fail(now, *peer, FailReason::connect_timeout, out);
  }
  if (peer->connection.left_) return end_left(now, *peer, out);
  fail(now, *peer, FailReason::vanished, out);
}

void Connector::on_lane_error(const Now& now, LaneId lane, Outbox& out) {
  if (Peer* const peer = peer_of(lane)) {
    on_bad_completion(now, *peer, CompletionStatus::fatal_err, {}, out);
  }
}

// After the peer's goodbye, the work still under way does not matter. Nor after an agreement to part:
// the peer was alive, and if it did not get our last frame it takes no new connection from us but
// gives us up.
void Connector::on_bad_completion(const Now& now, Peer& peer, CompletionStatus status,
                                  const TransferRequest& request, Outbox& out) {
  if (peer.connection.left_) return end_left(now, peer, out);
  fail(now, peer, Failure{peer.id, FailReason::send_failed, status, {}, request}, out);
}

void Connector::fail(const Now& now, Peer& peer, const Failure& why, Outbox& out) {
  const PeerState state = peer.connection.state_;
  if (state == PeerState::failed || state == PeerState::closed) return;
  if (state == PeerState::closing) return finish_close(now, peer, out);  // we leave anyway
  ++counters_.peer_failures;
  move_to(peer, PeerState::failed);
  out.report(why);
  drop_lane(peer, out);
  end_session(peer);
  listener_.on_gone(now, peer, out);
  begin_waiting(now, out);
}

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
    case PeerState::connecting:
    case PeerState::accepting:
      if (!listener_.has_work(peer)) finish_close(now, peer, out);
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
  drop_lane(peer, out);
  move_to(peer, PeerState::closed);
  end_session(peer);
  listener_.on_gone(now, peer, out);
  begin_waiting(now, out);
}

void Connector::abandon(const Now& now, Peer& peer, Outbox& out) {
  if (peer.connection.state_ != PeerState::closed) finish_close(now, peer, out);
}

// Forgets everything that belonged to the last connection; pending frames stay.
void Connector::end_session(Peer& peer) {
  receiver_.leave(peer.share);
  sender_.begin(peer);
  peer.connection.left_ = false;
  peer.connection.goodbye_sent_ = false;
  peer.connection.asked_to_part_ = false;
  set_deadline(peer, Time::never());
}

// ---- parting ----

// Those that waited begin; one that nothing goes to any more need not.
void Connector::begin_waiting(const Now& now, Outbox& out) {
  while (!wants_.empty() && places_.may_ask(now.time(), asking_)) {
    Peer& peer = *wants_.pop();
    if (listener_.has_work(peer)) begin(now, peer, out);
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
  ++counters_.connections_parted;
}

// The peer has left, and we have nothing more for this connection.
void Connector::end_left(const Now& now, Peer& peer, Outbox& out) {
  if (!peer.connection.is_leaving()) return finish_close(now, peer, out);
  end_part(peer, out);
  if (listener_.has_work(peer)) connect(now, peer, out);
  begin_waiting(now, out);
}

// ---- time ----

// Each that is given up fails, or gets a later deadline.
void Connector::on_timer(const Now& now, Outbox& out) {
  while (!due_.empty() && now >= due_.begin()->first) {
    give_up_attempt(now, peers_[due_.begin()->second], out);
  }
  if (!wants_places() || now < next_look_) return;
  begin_waiting(now, out);
  make_room(now, out);
}

}  // namespace weir
