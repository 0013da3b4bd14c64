// Sessions: the fence of a lane that broke, what its frames become, and frames over another rail.
#include <cassert>
#include <utility>

#include "transport/core/connector.h"

namespace weir {
namespace {

// A connection that breaks so often before anything went over it will not get better.
constexpr std::uint8_t most_futile = 8;

}  // namespace

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

bool Connector::may_resume(const Peer& peer, CompletionStatus status) const {
  const Connection& connection = peer.connection;
  if (!config_.resumes || connection.lane_ == LaneId::none || connection.is_pending() ||
      has_left(peer)) {
    return false;
  }
  return may_be_the_way(status);
}

bool Connector::may_be_the_way(CompletionStatus status) const {
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
  if (even_if_ready && is_unknown_session(connection)) {
    if (!connection.is_pending()) connection.since_ = now;
    connection.in_session_ = true;
  } else if (!connection.is_resuming() || connection.broke_in_ != PeerState::ready) {
    return false;
  }
  switch (connection.state_) {
    case PeerState::broken:
      if (connection.after_ == AfterFence::fail || connection.after_ == AfterFence::end) return false;
      connection.after_ = AfterFence::hold;
      return true;
    case PeerState::accepting:  // as good as ready
      if (!even_if_ready) return false;
      end_accepted(peer, AfterFence::hold, out);
      return true;
    case PeerState::idle:
    case PeerState::closed:
    case PeerState::connecting:
    case PeerState::waiting:
      drop_lane(peer, out);
      receiver_.take_back(peer.share);
      move_to(peer, PeerState::held);
      [[fallthrough]];
    default: set_deadline(peer, now + config_.attempt_timeout); return true;
  }
}

// The peer is in a session that we do not know of: nothing has come of our answer (PROTOCOL.md §4.2).
// So nothing has arrived, and nothing can any more once our end of that is fenced.
bool Connector::is_unknown_session(const Connection& connection) {
  const bool none = connection.is_idle() || connection.state_ == PeerState::connecting ||
                    connection.state_ == PeerState::waiting ||
                    connection.state_ == PeerState::accepting;
  return none && !connection.in_session_ && !connection.ended_;
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

// ---- what is over ----

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
  connection.received_ = connection.sent_ = config_.first_frame;
  set_deadline(peer, Time::never());
}

}  // namespace weir
