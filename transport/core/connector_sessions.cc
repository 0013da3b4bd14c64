// Sessions: the fence of a broken lane, the fate of its frames, and frames over another rail.
#include <algorithm>
#include <cassert>
#include <utility>

#include "transport/core/connector.h"

namespace weir {
namespace {

// A connection that breaks so often in a row, before anything went over it, will not get better.
constexpr std::uint8_t most_futile = 8;

}  // namespace

// The connection that we accepted fails, but the asker may have sent over it all the same.
void Connector::fence_unconfirmed(Peer& peer, PeerState then, Outbox& out) {
  if (then == PeerState::broken_ask) {
    ++counters_.connect_retries;
    if (peer.connection.is_in_session()) tell(peer, LinkNews::Kind::out, out);
  }
  fence(peer, then, out);
}

// Every lane that may have carried frames and breaks goes this way.
void Connector::fence(Peer& peer, PeerState then, Outbox& out) {
  set_deadline(peer, Time::never());
  move_to(peer, then);
  listener_.on_broken(peer, out);
  lanes_.fence(peer.connection.lane_, out);
}

// For a lane that nobody has confirmed, or whose connection is over.
void Connector::drop_lane(Peer& peer, Outbox& out, bool delivered) {
  Connection& connection = peer.connection;
  assert(!any_broken.has(connection.state_) || connection.lane_ == LaneId::none);
  if (connection.lane_ == LaneId::none) return;
  // Frames that overtook the answer are delivered: the peer must not send them again.
  const std::uint32_t received = lanes_[connection.lane_].rx_sequence;
  if (config_.resumes && received != connection.received_) {
    connection.received_ = received;
    if (connection.is_pending()) connection.session_ = Connection::Session::open;
  }
  listener_.on_lane_ends(peer, out);
  lanes_.release(connection.lane_, delivered, out);
  connection.lane_ = LaneId::none;
}

// The peer's process is gone, or has seen the connection break and asks for the next one.
void Connector::on_disconnected(const Now& now, LaneId lane, Outbox& out) {
  Peer* const peer = peer_of(lane);
  if (peer == nullptr) return;
  const Failure why{peer->id, FailReason::vanished, CompletionStatus::success, {}, {}};
  on(Event::disconnected, now, *peer, out, {.reason = FailReason::connect_timeout, .why = &why});
}

void Connector::on_lane_error(const Now& now, LaneId lane, Outbox& out) {
  if (Peer* const peer = peer_of(lane)) {
    on_bad_completion(now, *peer, CompletionStatus::fatal_err, {}, out);
  }
}

void Connector::on_bad_completion(const Now& now, Peer& peer, CompletionStatus status,
                                  const TransferRequest& request, Outbox& out) {
  on_lane_lost(now, peer, Failure{peer.id, FailReason::send_failed, status, {}, request}, out);
}

bool Connector::may_resume(const Peer& peer, CompletionStatus status) const {
  return config_.resumes && peer.connection.futile_ < most_futile && may_be_the_way(status);
}

bool Connector::may_be_the_way(CompletionStatus status) const {
  switch (status) {
    case CompletionStatus::success:  // no completion, but another event
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

// The session goes on over another lane, or the peer is given up.
void Connector::lose_lane(const Now& now, Peer& peer, const Failure& why, Outbox& out) {
  if (!may_resume(peer, why.completion)) return fail(now, peer, why, out);
  // Over a port that is down nothing can be asked for.
  const bool asks = why.reason != FailReason::port_down;
  fence_broken(now, peer, why, asks ? PeerState::broken_ask : PeerState::broken_wait, out);
}

// The peer has seen the connection break, and we have not.
void Connector::give_way(const Now& now, Peer& peer, Outbox& out) {
  const Failure why{peer.id, FailReason::vanished, CompletionStatus::success, {}, {}};
  fence_broken(now, peer, why, PeerState::broken_wait, out);
}

void Connector::fence_broken(const Now& now, Peer& peer, const Failure& why, PeerState then,
                             Outbox& out) {
  Connection& connection = peer.connection;
  const Lane& lane = lanes_[connection.lane_];
  // A stalled peer may only be computing, and a port that is down is no fault of the connection.
  const bool excused = why.reason == FailReason::stalled || why.reason == FailReason::port_down;
  const bool futile =
      !excused && lane.queue.retired() == 0 && lane.rx_sequence == connection.received_;
  connection.futile_ = static_cast<std::uint8_t>(futile ? connection.futile_ + 1 : 0);
  ++counters_.connections_broken;
  // After a disconnect, the peer's process is gone, or reports the outage itself.
  connection.is_out_ = why.reason != FailReason::vanished;
  if (connection.is_out_ && out_++ == 0) {
    out_since_ = now.time();
    out.report(Outage{peer.id, false, why.reason, why.completion});
  }
  connection.broke_in_ = connection.state_;
  connection.broke_ = why.reason;
  connection.broke_with_ = why.completion;
  connection.since_ = now.time() + Duration{-silence_before(why).ns};
  connection.silences_ = 0;
  connection.vain_holds_ = 0;
  connection.trouble_ = why.reason;
  fence(peer, then, out);
  tell(peer, LinkNews::Kind::down, out, why.reason);
}

void Connector::on_fenced(const Now& now, Peer& peer, const Lane& lane, bool sound, Outbox& out) {
  Connection& connection = peer.connection;
  connection.lane_ = LaneId::none;
  if (lane.rx_sequence != connection.received_ && config_.resumes) {
    connection.session_ = Connection::Session::open;
  }
  connection.received_ = lane.rx_sequence;
  connection.sent_ = lane.tx_sequence;
  void_credits(peer);
  on(sound ? Event::fenced : Event::fenced_in_doubt, now, peer, out,
     {.reason = FailReason::atomic_in_doubt});
}

// Whether our last frame before the break was the goodbye.
bool Connector::said_goodbye(const Peer& peer) {
  const Connection& connection = peer.connection;
  return connection.broke_in_ == PeerState::parted || connection.broke_in_ == PeerState::said;
}

// The peer has ended the session. If it had our goodbye, it had everything. Otherwise nobody can
// tell whether frames in doubt arrived. False if it may lack some.
bool Connector::give_up_session(Peer& peer, Outbox& out) {
  const Connection& connection = peer.connection;
  if (!connection.is_in_session()) return false;
  if (!said_goodbye(peer) && peer.outgoing.doubts_messages()) return false;
  sender_.settle_doubt(peer, peer.outgoing.frames_in_doubt(), [&](SendSlot* slot, bool delivered) {
    listener_.on_settled(slot, delivered, out);
  });
  return true;
}

void Connector::hear_it_is_over(const Now& now, Peer& peer, Outbox& out) {
  if (!give_up_session(peer, out)) return give_up(now, peer, FailReason::vanished, out);
  drop_lane(peer, out);
  const PeerState broke_in = peer.connection.broke_in_;
  const bool leaves = broke_in == PeerState::closing || broke_in == PeerState::said;
  leaves ? finish(now, peer, out) : part(now, peer, out);
}

// The peer tells how many frames of the session it has received. False if the number cannot be: it
// lacks frames that its adapter has acknowledged, or counts frames never sent.
bool Connector::settle(Peer& peer, std::uint32_t received, Outbox& out) {
  Connection& connection = peer.connection;
  if (!connection.is_in_session()) return true;
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
  if (even_if_ready && is_unknown_session(connection)) {
    if (!connection.is_pending()) connection.since_ = now;
    connection.session_ = Connection::Session::open;
  } else if ((connection.is_pending() || connection.is_idle()) &&
             !may_be_held(now, connection, even_if_ready)) {
    return false;
  }
  return on(even_if_ready ? Event::hold_anyway : Event::hold, now, peer, out);
}

// A side that leaves for good gives nothing away. A side that has agreed to part makes an attempt
// first, unless the peer `asked` for the hold: mostly the peer has the goodbye, and says so.
bool Connector::may_be_held(const Now& now, const Connection& connection, bool asked) const {
  if (!connection.is_in_session()) return false;
  if (connection.broke_in_ == PeerState::closing || connection.broke_in_ == PeerState::said) {
    return false;
  }
  return asked || connection.broke_in_ != PeerState::parted ||
         now - connection.since_ >= config_.attempt_timeout;
}

// The peer is in a session that we do not know of, because nothing has arrived since we accepted
// (PROTOCOL.md §4.2). Nothing can any more once our end is fenced.
bool Connector::is_unknown_session(const Connection& connection) {
  constexpr PeerStates without = PeerState::idle | PeerState::closed | PeerState::connecting |
                                 PeerState::waiting | PeerState::accepting;
  return without.has(connection.state_) && connection.session_ == Connection::Session::none;
}

// A hold in vain doubles the next one, because the peer's answer may take longer. Otherwise both
// sides could let go just before the answer, for ever. This limit leaves most of the time for
// attempts, since the rail may be back.
Duration Connector::longest_hold(const Peer& peer) const {
  return std::max(config_.attempt_timeout, patience_with(peer) / 4);
}

// A hold ends when the time is up to give the peer up, but lasts at least as long as an attempt.
Time Connector::deadline_of_hold(const Now& now, const Peer& peer) const {
  const Connection& connection = peer.connection;
  const Duration doubled{config_.attempt_timeout.ns << connection.vain_holds_};
  const Time end = connection.since_ + patience_with(peer);
  return std::min(now + std::min(doubled, longest_hold(peer)),
                  std::max(end, now + config_.attempt_timeout));
}

void Connector::stay_held(const Now& now, Peer& peer) {
  set_deadline(peer, deadline_of_hold(now, peer));
  move_to(peer, PeerState::held);
}

bool Connector::hold_lane(const Now& now, Peer& peer, Outbox& out) {
  constexpr CompletionStatus none = CompletionStatus::success;
  if (!config_.resumes) return false;
  fence_broken(now, peer, {peer.id, FailReason::vanished, none, {}, {}}, PeerState::broken_hold,
               out);
  peer.connection.broke_ = FailReason::none;  // only the peer saw the connection break
  return true;
}

void Connector::hold_attempt(const Now& now, Peer& peer, Outbox& out) {
  drop_lane(peer, out);
  receiver_.take_back(peer.share);
  stay_held(now, peer);
}

// Nobody has answered. The peer may be slow, or the path may be back: makes an attempt meanwhile.
void Connector::hold_in_vain(const Now& now, Peer& peer, Outbox& out) {
  Connection& connection = peer.connection;
  if (has_no_time_left(now, peer)) return give_up(now, peer, connection.trouble_, out);
  if (config_.attempt_timeout.ns << connection.vain_holds_ < longest_hold(peer).ns) {
    ++connection.vain_holds_;
  }
  tell(peer, LinkNews::Kind::waited, out);
  ask(now, peer, out);
}

bool Connector::give_frames_away(const Now& now, Peer& peer, std::uint32_t received, Outbox& out) {
  if (!settle(peer, received, out)) {
    give_up(now, peer, FailReason::frames_lost, out);
    return false;
  }
  peer.connection.moved_ = true;
  return true;
}

// ---- what is over ----

// Credits granted are void with the connection, and the next one's greeting gives others.
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
  if (connection.is_in_session()) {
    connection.session_ = Connection::Session::over;
    connection.ended_at_ = connection.received_;
  }
  connection.noted_ = nullptr;
  connection.moved_ = false;
  if (std::exchange(connection.is_out_, false)) --out_;
  connection.futile_ = 0;
  connection.vain_holds_ = 0;
  connection.broke_in_ = PeerState::ready;
  connection.broke_ = FailReason::none;
  connection.received_ = connection.sent_ = config_.first_frame;
  set_deadline(peer, Time::never());
}

}  // namespace weir
