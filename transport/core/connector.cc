#include "transport/core/connector.h"

#include <algorithm>
#include <cassert>

namespace weir {

using Kind = ConnectAction::Kind;

namespace {

// A connection that breaks so often before anything went over it will not get better.
constexpr std::uint8_t most_futile = 8;

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
bool Connector::is_over_for(const Connection& connection, const wire::Hello& hello) {
  return hello.resumes && !connection.in_session_ && (hello.received != 0 || connection.ended_);
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

// Nothing comes of the connection that we accepted. The asker may have sent over it all the same.
void Connector::end_accepted(Peer& peer, AfterFence after, Outbox& out) {
  if (after == AfterFence::ask) {
    ++counters_.connect_retries;
    if (peer.connection.in_session_) tell(peer, LinkNews::Kind::out, out);
  }
  fence(peer, after, out);
}

// One way for each lane that may have carried frames, and for what is then to happen.
void Connector::fence(Peer& peer, AfterFence after, Outbox& out) {
  peer.connection.after_ = after;
  set_deadline(peer, Time::never());
  move_to(peer, PeerState::broken);
  listener_.on_broken(peer, out);
  lanes_.fence(peer.connection.lane_, out);
}

// ---- ending them ----

// Of an attempt that nobody has confirmed, or when all is over.
void Connector::drop_lane(Peer& peer, Outbox& out, bool delivered) {
  Connection& connection = peer.connection;
  assert(connection.state_ != PeerState::broken || connection.lane_ == LaneId::none);
  if (connection.lane_ == LaneId::none) return;
  // Frames that overtook the answer are delivered: the peer must not send them again.
  const std::uint32_t received = lanes_[connection.lane_].rx_sequence;
  if (config_.resumes && connection.is_pending() && received != connection.received_) {
    connection.received_ = received;
    connection.in_session_ = true;
  }
  listener_.on_lane_ends(peer, out);
  lanes_.release(connection.lane_, delivered, out);
  connection.lane_ = LaneId::none;
}

void Connector::on_disconnected(const Now& now, LaneId lane, Outbox& out) {
  Peer* const peer = peer_of(lane);
  if (peer == nullptr) return;
  if (peer->connection.is_pending()) {  // the asker gave up this attempt
    return retry_or_fail(now, *peer, FailReason::connect_timeout, out);
  }
  if (has_left(*peer)) return end_left(now, *peer, out);
  // Its process is gone, or has seen the connection break and asks for the next one.
  on_lane_lost(now, *peer, {peer->id, FailReason::vanished, CompletionStatus::success, {}, {}},
               out);
}

void Connector::on_lane_error(const Now& now, LaneId lane, Outbox& out) {
  if (Peer* const peer = peer_of(lane)) {
    on_bad_completion(now, *peer, CompletionStatus::fatal_err, {}, out);
  }
}

// After the peer's goodbye, the work still under way does not matter.
void Connector::on_bad_completion(const Now& now, Peer& peer, CompletionStatus status,
                                  const TransferRequest& request, Outbox& out) {
  if (peer.connection.state_ == PeerState::broken) return;  // that is what a fence does
  if (has_left(peer)) return end_left(now, peer, out);
  on_lane_lost(now, peer, Failure{peer.id, FailReason::send_failed, status, {}, request}, out);
}

// Whether such an error can be one of the way, or of the queue pair, and not of what was sent.
bool Connector::may_resume(const Peer& peer, CompletionStatus status) const {
  const Connection& connection = peer.connection;
  if (!config_.resumes || connection.lane_ == LaneId::none || connection.is_pending() ||
      has_left(peer)) {
    return false;
  }
  switch (status) {
    case CompletionStatus::success:  // no completion says so
    case CompletionStatus::loc_qp_op_err:
    case CompletionStatus::wr_flush_err:
    case CompletionStatus::retry_exc_err:
    case CompletionStatus::rnr_retry_exc_err:
    case CompletionStatus::resp_timeout_err:
    case CompletionStatus::fatal_err: return true;
    // Soft-RoCE may cut a frame that it repeats (PROTOCOL.md §2).
    case CompletionStatus::rem_inv_req_err: return config_.frames_may_repeat;
    default: return false;
  }
}

// How long nothing had come from the peer when this was noticed.
Duration Connector::silence_before(const Failure& why) const {
  if (why.reason == FailReason::stalled) return config_.peer_timeout / 8 * 7;
  return why.completion == CompletionStatus::retry_exc_err ? config_.repeats_for : Duration{};
}

void Connector::on_lane_lost(const Now& now, Peer& peer, const Failure& why, Outbox& out) {
  if (peer.connection.is_pending()) {  // and nothing was posted
    return retry_or_fail(now, peer, FailReason::connect_spoilt, out);
  }
  if (!may_resume(peer, why.completion) || peer.connection.futile_ >= most_futile) {
    return fail(now, peer, why, out);
  }
  // Over a port that is down nothing can be asked for.
  const bool asks = why.reason != FailReason::port_down;
  lose_lane(now, peer, why, asks ? AfterFence::ask : AfterFence::wait, out);
}

// The connection broke, and its session goes on.
void Connector::lose_lane(const Now& now, Peer& peer, const Failure& why, AfterFence after,
                          Outbox& out) {
  Connection& connection = peer.connection;
  const Lane& lane = lanes_[connection.lane_];
  // The peer answers requests, and computes; or it is no fault of the connection.
  const bool excused = why.reason == FailReason::stalled || why.reason == FailReason::port_down;
  const bool futile =
      !excused && lane.queue.retired() == 0 && lane.rx_sequence == connection.received_;
  connection.futile_ = static_cast<std::uint8_t>(futile ? connection.futile_ + 1 : 0);
  ++counters_.connections_broken;
  // If it was disconnected, its process is gone, or tells itself why.
  connection.is_out_ = why.reason != FailReason::vanished;
  if (connection.is_out_ && out_++ == 0) {
    out_since_ = now.time();
    out.report(Outage{peer.id, false, why.reason, why.completion});
  }
  connection.broke_in_ = connection.state_;
  connection.left_ = false;  // if it did, that was agreed on, and is not to be
  connection.broke_ = why.reason;
  connection.broke_with_ = why.completion;
  connection.since_ = now.time() + Duration{-silence_before(why).ns};
  connection.silences_ = 0;
  connection.trouble_ = why.reason;
  fence(peer, after, out);
  tell(peer, LinkNews::Kind::down, out, why.reason);
}

void Connector::on_fenced(const Now& now, Peer& peer, const Lane& lane, bool sound, Outbox& out) {
  Connection& connection = peer.connection;
  connection.lane_ = LaneId::none;
  if (lane.rx_sequence != connection.received_ && config_.resumes) connection.in_session_ = true;
  connection.received_ = lane.rx_sequence;
  connection.sent_ = lane.tx_sequence;
  void_credits(peer);
  if (!sound) return fail(now, peer, FailReason::atomic_in_doubt, out);
  if (connection.left_) {  // the last frame was its goodbye
    if (connection.broke_in_ == PeerState::parting) return part(now, peer, out);
    return finish_close(now, peer, out);
  }
  switch (connection.after_) {
    case AfterFence::ask: return ask(now, peer, out);
    case AfterFence::wait:
      set_deadline(peer, now + config_.attempt_timeout);
      return move_to(peer, PeerState::waiting);
    case AfterFence::hold:
      set_deadline(peer, now + config_.attempt_timeout);
      return move_to(peer, PeerState::held);
    case AfterFence::end:
      if (connection.in_session_ && !connection.is_given_up_) return ask(now, peer, out);
      return finish_close(now, peer, out);
    case AfterFence::fail: return fail(now, peer, *std::exchange(connection.noted_, nullptr), out);
  }
}

// The last frame of ours, before the connection broke.
bool Connector::said_goodbye(const Peer& peer) {
  const Connection& connection = peer.connection;
  return connection.broke_in_ == PeerState::parted ||
         (connection.broke_in_ == PeerState::closing && connection.goodbye_sent_);
}

// The peer has ended the session. If it had our goodbye, it had everything. Of frames in doubt
// nobody can tell any more. False if it may lack some.
bool Connector::give_up_session(Peer& peer, Outbox& out) {
  const Connection& connection = peer.connection;
  if (!connection.in_session_) return false;
  if (!said_goodbye(peer) && peer.outgoing.doubts_messages()) return false;
  sender_.settle_doubt(peer, peer.outgoing.frames_in_doubt(), [&](SendSlot* slot, bool delivered) {
    listener_.on_settled(slot, delivered, out);
  });
  return true;
}

void Connector::on_over(const Now& now, Peer& peer, Outbox& out) {
  if (!give_up_session(peer, out)) return fail(now, peer, FailReason::vanished, out);
  drop_lane(peer, out);
  peer.connection.broke_in_ == PeerState::closing ? finish_close(now, peer, out)
                                                  : part(now, peer, out);
}

// The peer tells how many frames of the session it has received. False if that cannot be: it lacks
// frames whose arrival its adapter has acknowledged.
bool Connector::settle(Peer& peer, std::uint32_t received, Outbox& out) {
  Connection& connection = peer.connection;
  if (!connection.in_session_) return true;
  const auto in_doubt = static_cast<std::uint32_t>(peer.outgoing.frames_in_doubt());
  const std::uint32_t arrived = received - (connection.sent_ - in_doubt);
  if (arrived > in_doubt) return false;
  sender_.settle_doubt(peer, arrived, [&](SendSlot* slot, bool delivered) {
    listener_.on_settled(slot, delivered, out);
  });
  connection.sent_ = received;
  return true;
}

// ---- carrying frames over another rail ----

bool Connector::hold(const Now& now, Peer& peer, bool even_if_ready, Outbox& out) {
  Connection& connection = peer.connection;
  if (connection.is_ready()) {
    constexpr CompletionStatus none = CompletionStatus::success;
    if (!even_if_ready || !may_resume(peer, none)) return false;
    lose_lane(now, peer, {peer.id, FailReason::vanished, none, {}, {}}, AfterFence::hold, out);
    connection.broke_ = FailReason::none;  // it was the peer that saw it break
    return true;
  }
  if (!connection.is_resuming() || connection.broke_in_ != PeerState::ready) return false;
  switch (connection.state_) {
    case PeerState::broken:
      if (connection.after_ == AfterFence::fail || connection.after_ == AfterFence::end) return false;
      connection.after_ = AfterFence::hold;
      return true;
    case PeerState::accepting:  // as good as ready
      if (!even_if_ready) return false;
      end_accepted(peer, AfterFence::hold, out);
      return true;
    case PeerState::connecting:
    case PeerState::waiting:
      drop_lane(peer, out);
      receiver_.take_back(peer.share);
      move_to(peer, PeerState::held);
      [[fallthrough]];
    default: set_deadline(peer, now + config_.attempt_timeout); return true;
  }
}

bool Connector::give_away(const Now& now, Peer& peer, std::uint32_t received, Outbox& out) {
  Connection& connection = peer.connection;
  if (!connection.is_held()) return false;
  if (!settle(peer, received, out)) {
    fail(now, peer, FailReason::frames_lost, out);
    return false;
  }
  connection.moved_ = true;
  return true;
}

void Connector::let_go(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  if (connection.is_held()) return ask(now, peer, out);
  if (connection.state_ == PeerState::broken && connection.after_ == AfterFence::hold) {
    connection.after_ = AfterFence::ask;
  }
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

// Those that are out are void with the connection, and the next one's greeting gives others.
void Connector::void_credits(Peer& peer) {
  receiver_.take_back(peer.share);
  sender_.begin(peer);
  peer.connection.asked_to_part_ = false;
}

// Forgets everything that belonged to the session; pending frames stay.
void Connector::end_session(Peer& peer) {
  void_credits(peer);
  receiver_.leave(peer.share);
  Connection& connection = peer.connection;
  connection.left_ = false;
  connection.goodbye_sent_ = false;
  connection.ended_ = connection.ended_ || connection.in_session_;
  connection.in_session_ = false;
  connection.is_given_up_ = false;
  connection.noted_ = nullptr;
  connection.moved_ = false;
  if (std::exchange(connection.is_out_, false)) --out_;
  connection.futile_ = 0;
  connection.broke_in_ = PeerState::ready;
  connection.broke_ = FailReason::none;
  connection.received_ = connection.sent_ = 0;
  set_deadline(peer, Time::never());
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
