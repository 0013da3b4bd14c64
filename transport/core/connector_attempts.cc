// Making connections: who asks, who accepts, and what becomes of an attempt.
#include <algorithm>

#include "transport/core/connector.h"

namespace weir {

using Kind = ConnectAction::Kind;

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
  hello.wakes = config_.wakes;
  hello.resumes = peer.connection.in_session_;
  hello.received = peer.connection.received_;
  return hello;
}

// In a session the numbers of frames go on.
LaneId Connector::make_lane(Peer& peer) {
  const LaneId lane = lanes_.make(peer.id, LaneUse::frames);
  lanes_[lane].rx_sequence = peer.connection.received_;
  lanes_[lane].tx_sequence = peer.connection.sent_;
  return lane;
}

// The smaller of what we can start and what the peer's adapter answers. [IBTA 9.4.3]
void Connector::agree_on_fetches(Peer& peer, std::uint32_t answered) {
  peer.connection.most_fetches_ = std::clamp(answered, 1u, config_.max_rd_atomic);
}

void Connector::connect_ahead(const Now& now, Peer& peer, Outbox& out) {
  if (!peer.connection.is_idle()) return;
  peer.connection.wanted_ahead_ = true;
  connect(now, peer, out);
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
  const Time end = connection.since_ + patience_with(peer);
  // An outage may end at any time; an answer came before.
  const std::uint32_t doublings = connection.in_session_ ? 0 : std::min(connection.silences_, 16u);
  const Duration doubled{config_.attempt_timeout.ns << doublings};
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
  connection.wanted_ahead_ = false;
  move_to(peer, PeerState::connecting);
  receiver_.admit(peer.share, out);
  connection.lane_ = make_lane(peer);
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

bool Connector::may_take_request(const Now& now, const wire::Hello& hello, std::uint32_t waiting,
                                 Outbox& out) {
  const PeerId known = peers_.find(hello.from);
  const Connection none;
  const Connection& connection = known != PeerId::none ? peers_[known].connection : none;
  const bool needs_place = connection.is_idle() && !is_over_for(connection, hello);
  if (!needs_place || places_.may_begin(now.time())) {
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
  if (!hello.resumes && hello.buffer_bytes != config_.buffer_bytes) return wire::Reject::buffer;
  return std::nullopt;
}

// Who has given the session up, or left it, takes it up no more. But the asker may be in a session
// that we do not know of: nothing has come of our answer yet.
bool Connector::is_over_for(const Connection& connection, const wire::Hello& hello) const {
  return hello.resumes && !connection.in_session_ &&
         (hello.received != config_.first_frame || connection.ended_);
}

// A request that was sent before its owner had all that its adapter has acknowledged since, or more
// than was ever sent.
bool Connector::is_stale(const Peer& peer, const wire::Hello& hello) const {
  const Connection& connection = peer.connection;
  if (!hello.resumes || !connection.in_session_) return false;
  const bool has_lane = connection.is_open() || connection.is_leaving();
  const std::uint32_t sent = has_lane ? lanes_[connection.lane_].tx_sequence : connection.sent_;
  const auto unsure = static_cast<std::uint32_t>(
      has_lane ? lanes_[connection.lane_].queue.in_flight() : peer.outgoing.frames_in_doubt());
  return sent - hello.received > unsure;
}

void Connector::make_way(const Now& now, const wire::Hello& hello, Outbox& out) {
  const PeerId known = peers_.find(hello.from);
  if (known == PeerId::none || hello.attempt <= peers_[known].connection.attempt_seen_) return;
  if (!hello.resumes && peers_[known].connection.state_ != PeerState::accepting) return;
  Peer& peer = peers_[known];
  const Connection& connection = peer.connection;
  if (connection.state_ == PeerState::accepting) return end_accepted(peer, AfterFence::wait, out);
  if (connection.is_pending() || connection.lane_ == LaneId::none || has_left(peer) ||
      is_stale(peer, hello)) {
    return;
  }
  lose_lane(now, peer, {peer.id, FailReason::vanished, CompletionStatus::success, {}, {}},
            AfterFence::wait, out);
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
  if (is_over_for(connection, hello)) return reject(wire::Reject::over);
  if (is_stale(peer, hello)) return reject(wire::Reject::crossed);
  // Unless it has left our session by our goodbye, it tells what became of it when we ask.
  const bool begins_anew = connection.is_resuming() && !hello.resumes;
  if (begins_anew && !said_goodbye(peer)) return reject(wire::Reject::crossed);
  switch (connection.state_) {
    case PeerState::parting:
    case PeerState::parted:
    case PeerState::closing:
    case PeerState::held:
    case PeerState::broken:
    case PeerState::failed: return reject(wire::Reject::closing);
    case PeerState::ready:
      if (!connection.left_) return reject(wire::Reject::crossed);
      finish_close(now, peer, out);  // it left, and is back before we heard of the disconnect
      if (hello.resumes) return reject(wire::Reject::over);
      break;
    case PeerState::connecting:
      ++counters_.connections_crossed;
      if (config_.self < peer.name && hello.resumes == connection.in_session_) {
        return reject(wire::Reject::crossed);
      }
      break;
    case PeerState::waiting:
    case PeerState::accepting:  // the peer asks again: our first answer was lost
    case PeerState::idle:
    case PeerState::closed: break;
  }
  const Time since = connection.is_pending() ? connection.since_ : now.time();
  if (!connection.is_pending()) connection.silences_ = 0;
  drop_lane(peer, out);
  if (begins_anew) give_up_session(peer, out);
  if (hello.resumes) {
    void_credits(peer);
    connection.in_session_ = true;
    connection.told_ = hello.received;
  } else {
    end_session(peer);
    connection.ended_ = false;  // the peer knows: it begins another one
  }
  connection.since_ = since;
  // The connection manager repeats our answer, so this deadline only bounds its silence. A deadline
  // shorter than the asker's would break connections that the asker believes in.
  set_deadline(peer, now + patience_with(peer));
  move_to(peer, PeerState::accepting);
  connection.attempt_seen_ = hello.attempt;
  receiver_.admit(peer.share, out);
  connection.lane_ = make_lane(peer);
  sender_.grant(peer, hello.credits, hello.control_credits);
  sender_.set_wakes(peer, hello.wakes);
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
  if (!hello.resumes && hello.buffer_bytes != config_.buffer_bytes) {
    return fail(now, *peer, FailReason::rejected_buffer, out);
  }
  if (hello.resumes != peer->connection.in_session_ || !settle(*peer, hello.received, out)) {
    return fail(now, *peer, FailReason::frames_lost, out);
  }
  lanes_[lane].tx_sequence = peer->connection.sent_;
  // Adds to the credits that a frame which overtook the answer may have brought.
  sender_.grant(*peer, hello.credits, hello.control_credits);
  sender_.set_wakes(*peer, hello.wakes);
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
    wire::Hello own;
    own.resumes = peer->connection.in_session_;
    own.received = peer->connection.received_;
    if (!settle(*peer, own.received, out)) return fail(now, *peer, FailReason::frames_lost, out);
    lanes_[lane].tx_sequence = peer->connection.sent_;
    sender_.begin(*peer);
    sender_.grant(*peer, peer->share.out, config_.credits.control_reserve);
    agree_on_fetches(*peer, config_.fetches_answered);
    become_ready(now, *peer, out);
  }
}

// The request that we accepted may have been an old one: what it told counts once the peer has
// confirmed.
void Connector::become_ready(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  if (connection.state_ == PeerState::accepting && connection.in_session_) {
    if (!settle(peer, connection.told_, out)) {
      return fail(now, peer, FailReason::frames_lost, out);
    }
    lanes_[connection.lane_].tx_sequence = connection.sent_;
  }
  move_to(peer, PeerState::ready);
  set_deadline(peer, Time::never());
  connection.moved_ = false;
  connection.ended_ = false;
  connection.wanted_ahead_ = false;
  tell(peer, LinkNews::Kind::up, out);
  if (std::exchange(connection.in_session_, true)) {
    ++counters_.connections_resumed;
    connection.goodbye_sent_ = false;  // the peer has not had it
    if (std::exchange(connection.is_out_, false) && --out_ == 0) {
      out.report(
          Outage{peer.id, true, connection.broke_, connection.broke_with_, now - out_since_});
    }
  } else {
    ++counters_.connections;
    counters_.connect_ns_sum += static_cast<std::uint64_t>((now - connection.since_).ns);
  }
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
      return wait(*peer, out);
    case wire::Reject::stranger: return fail(now, *peer, FailReason::rejected_stranger, out);
    case wire::Reject::version: return fail(now, *peer, FailReason::rejected_version, out);
    case wire::Reject::buffer: return fail(now, *peer, FailReason::rejected_buffer, out);
    case wire::Reject::closing: return retry_or_fail(now, *peer, FailReason::connect_refused, out);
    case wire::Reject::over: return on_over(now, *peer, out);
  }
}

void Connector::on_connect_failed(const Now& now, LaneId lane, FailReason reason, Outbox& out) {
  Peer* const peer = peer_of(lane);
  if (peer == nullptr || !peer->connection.is_pending()) return;
  // No address or route may be temporary: a link or a subnet manager may come back.
  const bool passing = reason == FailReason::connect_timeout ||
                       reason == FailReason::connect_unreachable ||
                       reason == FailReason::connect_spoilt;
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
  } else if (now - connection.since_ >= patience_with(peer)) {
    fail(now, peer, connection.trouble_, out);
  } else if (connection.state_ == PeerState::held) {
    // Nobody has answered. The peer may be slow, or its own connection is back: try that meanwhile.
    tell(peer, LinkNews::Kind::waited, out);
    let_go(now, peer, out);
  } else {
    retry(now, peer, out);
  }
}

void Connector::retry_or_fail(const Now& now, Peer& peer, FailReason reason, Outbox& out) {
  Connection& connection = peer.connection;
  if (connection.state_ == PeerState::broken) return;  // what comes of it is known
  const bool is_accepted = connection.state_ == PeerState::accepting;
  if (is_accepted && !connection.in_session_ && !listener_.has_work(peer)) {
    // The asker went away, and we have nothing to send to it.
    return end_accepted(peer, AfterFence::end, out);
  }
  if (now - connection.since_ >= patience_with(peer)) return fail(now, peer, reason, out);
  if (is_accepted) return end_accepted(peer, AfterFence::ask, out);
  if (reason == FailReason::connect_refused || reason == FailReason::connect_unreachable ||
      reason == FailReason::connect_spoilt) {
    // The peer is closing an earlier connection, or the network is changing: ask again at the
    // deadline of this attempt.
    connection.trouble_ = reason;
    return wait(peer, out);
  }
  retry(now, peer, out);
}

// For the peer's own request, or for the deadline.
void Connector::wait(Peer& peer, Outbox& out) {
  drop_lane(peer, out);
  receiver_.take_back(peer.share);
  if (peer.connection.state_ == PeerState::connecting) move_to(peer, PeerState::waiting);
}

void Connector::retry(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  ++counters_.connect_retries;
  if (connection.lane_ != LaneId::none) ++connection.silences_;
  if (connection.in_session_) tell(peer, LinkNews::Kind::out, out);
  drop_lane(peer, out);
  receiver_.take_back(peer.share);
  ask(now, peer, out);
}

}  // namespace weir
