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
  hello.resumes = peer.connection.is_in_session();
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

void Connector::seek_place(const Now& now, Peer& peer, Outbox& out) {
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

// An attempt gets twice the time of the one before that nobody answered. Up to a quarter is added,
// so that processes that asked at the same time ask again one by one. If too little time would be
// left for another attempt, this one gets it.
Time Connector::deadline_of_attempt(const Now& now, const Peer& peer) const {
  const Connection& connection = peer.connection;
  const Time end = connection.since_ + patience_with(peer);
  // No doubling in a session: the peer has answered in time before, and an outage may end any time.
  const std::uint32_t doublings =
      connection.is_in_session() ? 0 : std::min(connection.silences_, 16u);
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

// A side that has given the session up, or left it, does not take it up again. But the asker may be
// in a session that we do not know of, because we accepted and nothing has arrived yet.
bool Connector::is_over_for(const Connection& connection, const wire::Hello& hello) const {
  return hello.resumes && !connection.is_in_session() &&
         (hello.received != config_.first_frame || connection.session_ == Connection::Session::over);
}

// Whether the request is too old: its count lacks frames that the peer's adapter has acknowledged
// since. Or whether it counts more frames than we ever sent.
bool Connector::is_stale(const Peer& peer, const wire::Hello& hello) const {
  const Connection& connection = peer.connection;
  if (!hello.resumes || !connection.is_in_session()) return false;
  const bool has_lane = connection.is_open() || connection.is_leaving();
  const std::uint32_t sent = has_lane ? lanes_[connection.lane_].tx_sequence : connection.sent_;
  const auto unsure = static_cast<std::uint32_t>(
      has_lane ? lanes_[connection.lane_].queue.in_flight() : peer.outgoing.frames_in_doubt());
  return sent - hello.received > unsure;
}

void Connector::make_way(const Now& now, const wire::Hello& hello, Outbox& out) {
  const PeerId known = peers_.find(hello.from);
  if (known == PeerId::none || hello.attempt <= peers_[known].connection.attempt_seen_) return;
  const bool takes_up = hello.resumes && !is_stale(peers_[known], hello);
  on(takes_up ? Event::due : Event::due_anew, now, peers_[known], out);
}

void Connector::on_request(const Now& now, RequestId request, const wire::Hello& hello,
                           Outbox& out) {
  const Details details{.hello = &hello, .request = request};
  if (const auto reason = refusal(hello)) return refuse(details, *reason, out);
  Peer& peer = peers_.find_or_make(hello.from);
  const Event event = kind_of(peer, hello);
  const bool crosses = (event == Event::request || event == Event::request_weaker) &&
                       peer.connection.state_ == PeerState::connecting;
  counters_.connections_crossed += crosses ? 1 : 0;
  on(event, now, peer, out, details);
}

ConnectionEvent Connector::kind_of(const Peer& peer, const wire::Hello& hello) const {
  const Connection& connection = peer.connection;
  // An older request that arrives late must not end what a newer one began.
  if (hello.attempt <= connection.attempt_seen_) return Event::request_late;
  if (is_over_for(connection, hello)) return Event::request_over;
  if (is_stale(peer, hello)) return Event::request_late;
  // The peer begins anew, and we are in a session. If it left that with our goodbye, nothing is
  // open. Otherwise it tells what became of the session when we ask.
  const bool begins_anew = connection.is_resuming() && !hello.resumes;
  if (begins_anew && !said_goodbye(peer)) return Event::request_anew;
  const bool is_weaker = config_.self < peer.name && hello.resumes == connection.is_in_session();
  return is_weaker ? Event::request_weaker : Event::request;
}

void Connector::refuse(const Details& details, wire::Reject reason, Outbox& out) {
  out.act({.kind = Kind::reject,
           .request = details.request,
           .reason = reason,
           .hello = *details.hello});
}

// The peer left, and asks again before we heard of its disconnect.
void Connector::accept_after_leaving(const Now& now, Peer& peer, const Details& details,
                                     Outbox& out) {
  finish(now, peer, out);
  if (details.hello->resumes) return refuse(details, wire::Reject::over, out);
  accept(now, peer, details, out);
}

void Connector::accept(const Now& now, Peer& peer, const Details& details, Outbox& out) {
  Connection& connection = peer.connection;
  const wire::Hello& hello = *details.hello;
  const bool begins_anew = connection.is_resuming() && !hello.resumes;
  const Time since = connection.is_pending() ? connection.since_ : now.time();
  if (!connection.is_pending()) connection.silences_ = 0;
  drop_lane(peer, out);
  if (begins_anew) give_up_session(peer, out);
  if (hello.resumes) {
    void_credits(peer);
    connection.session_ = Connection::Session::open;
    connection.told_ = hello.received;
  } else {
    end_session(peer);
    connection.session_ = Connection::Session::none;  // the peer knows: it begins another one
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
           .request = details.request,
           .hello = answer});
  ++counters_.connections_accepted;
}

void Connector::on_answer(const Now& now, LaneId lane, const wire::Hello& hello, Outbox& out) {
  if (Peer* const peer = peer_of(lane)) on(Event::answered, now, *peer, out, {.hello = &hello});
}

void Connector::take_answer(const Now& now, Peer& peer, const wire::Hello& hello, Outbox& out) {
  const Connection& connection = peer.connection;
  if (hello.from != peer.name || hello.to != config_.self || hello.key != connection.key() ||
      hello.attempt != connection.attempt_) {
    return give_up(now, peer, FailReason::rejected_stranger, out);
  }
  if (wire::common_version(hello.protocol_min, hello.protocol_max) == 0) {
    return give_up(now, peer, FailReason::rejected_version, out);
  }
  if (!hello.resumes && hello.buffer_bytes != config_.buffer_bytes) {
    return give_up(now, peer, FailReason::rejected_buffer, out);
  }
  if (hello.resumes != connection.is_in_session() || !settle(peer, hello.received, out)) {
    return give_up(now, peer, FailReason::frames_lost, out);
  }
  lanes_[connection.lane_].tx_sequence = connection.sent_;
  // Adds to the credits that a frame which overtook the answer may have brought.
  sender_.grant(peer, hello.credits, hello.control_credits);
  sender_.set_wakes(peer, hello.wakes);
  agree_on_fetches(peer, hello.fetches);
  become_ready(now, peer, out);
}

void Connector::on_established(const Now& now, LaneId lane, Outbox& out) {
  if (Peer* const peer = peer_of(lane)) on(Event::confirmed, now, *peer, out);
}

// The credits that we granted to "the peer" are ours to use.
void Connector::take_loop(const Now& now, Peer& peer, Outbox& out) {
  if (peer.name != config_.self) return;
  const Connection& connection = peer.connection;
  if (!settle(peer, connection.received_, out)) {
    return give_up(now, peer, FailReason::frames_lost, out);
  }
  lanes_[connection.lane_].tx_sequence = connection.sent_;
  sender_.begin(peer);
  sender_.grant(peer, peer.share.out, config_.credits.control_reserve);
  agree_on_fetches(peer, config_.fetches_answered);
  become_ready(now, peer, out);
}

// The request that we accepted may have been an old one, so its count of frames is used only once
// the peer has confirmed.
void Connector::become_ready(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  if (connection.state_ == PeerState::accepting && connection.is_in_session()) {
    if (!settle(peer, connection.told_, out)) {
      return give_up(now, peer, FailReason::frames_lost, out);
    }
    lanes_[connection.lane_].tx_sequence = connection.sent_;
  }
  move_to(peer, PeerState::ready);
  set_deadline(peer, Time::never());
  connection.moved_ = false;
  connection.wanted_ahead_ = false;
  tell(peer, LinkNews::Kind::up, out);
  if (std::exchange(connection.session_, Connection::Session::open) == Connection::Session::open) {
    ++counters_.connections_resumed;
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
  if (peer == nullptr) return;
  switch (reason) {
    case wire::Reject::crossed: on(Event::refused_crossed, now, *peer, out); return;
    case wire::Reject::closing:
      on(Event::refused_closing, now, *peer, out, {.reason = FailReason::connect_refused});
      return;
    case wire::Reject::over: on(Event::refused_over, now, *peer, out); return;
    case wire::Reject::stranger:
      on(Event::refused, now, *peer, out, {.reason = FailReason::rejected_stranger});
      return;
    case wire::Reject::version:
      on(Event::refused, now, *peer, out, {.reason = FailReason::rejected_version});
      return;
    case wire::Reject::buffer:
      on(Event::refused, now, *peer, out, {.reason = FailReason::rejected_buffer});
      return;
  }
}

void Connector::on_connect_failed(const Now& now, LaneId lane, FailReason reason, Outbox& out) {
  Peer* const peer = peer_of(lane);
  if (peer == nullptr) return;
  // No address or route may be temporary: a link or a subnet manager may come back.
  const bool passing = reason == FailReason::connect_timeout ||
                       reason == FailReason::connect_unreachable ||
                       reason == FailReason::connect_spoilt;
  on(passing ? Event::attempt_failed : Event::attempt_spoilt, now, *peer, out, {.reason = reason});
}

// The time to wait is over: now we ask. If no time is left, the report names the trouble noted
// before.
void Connector::try_in_turn(const Now& now, Peer& peer, Outbox& out) {
  if (has_no_time_left(now, peer)) return give_up(now, peer, peer.connection.trouble_, out);
  retry(now, peer, out);
}

// The attempt comes to nothing. Another one follows, at once or later, while there is time.
void Connector::try_again(const Now& now, Peer& peer, FailReason reason, Outbox& out) {
  Connection& connection = peer.connection;
  const bool is_accepted = connection.state_ == PeerState::accepting;
  if (is_accepted && !connection.is_in_session() && !listener_.has_work(peer)) {
    // The asker went away, and we have nothing to send to it.
    return fence_unconfirmed(peer, PeerState::broken_end, out);
  }
  if (has_no_time_left(now, peer)) return give_up(now, peer, reason, out);
  if (is_accepted) return fence_unconfirmed(peer, PeerState::broken_ask, out);
  if (reason == FailReason::connect_refused || reason == FailReason::connect_unreachable ||
      reason == FailReason::connect_spoilt) {
    // The peer is closing an earlier connection, or the network is changing: ask again at the
    // deadline of this attempt.
    connection.trouble_ = reason;
    return wait(peer, out);
  }
  retry(now, peer, out);
}

// Waits for the peer's own request; if that gets lost, the timer asks again.
void Connector::wait(Peer& peer, Outbox& out) {
  drop_lane(peer, out);
  receiver_.take_back(peer.share);
  move_to(peer, PeerState::waiting);
}

// The same after a fence, when no attempt is under way.
void Connector::wait_a_while(const Now& now, Peer& peer) {
  set_deadline(peer, now + config_.attempt_timeout);
  move_to(peer, PeerState::waiting);
}

void Connector::retry(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  ++counters_.connect_retries;
  if (connection.lane_ != LaneId::none) ++connection.silences_;
  tell(peer, LinkNews::Kind::out, out);
  drop_lane(peer, out);
  receiver_.take_back(peer.share);
  ask(now, peer, out);
}

}  // namespace weir
