// The shared part of the connector: looks up the table, keeps states, deadlines and places, and
// gives peers up.
#include "transport/core/connector.h"

#include <cassert>
#include <memory>
#include <utility>

namespace weir {
namespace {

// The failure says that there is no connection, and not what went wrong on one.
constexpr bool is_of_connecting(FailReason reason) {
  return reason == FailReason::connect_refused || reason == FailReason::connect_timeout ||
         reason == FailReason::connect_unreachable || reason == FailReason::connect_spoilt ||
         reason == FailReason::rejected_stranger || reason == FailReason::vanished;
}

}  // namespace

bool Connector::on(Event event, const Now& now, Peer& peer, Outbox& out, const Details& details) {
  using Do = ConnectionAction;
  const auto state = static_cast<std::size_t>(peer.connection.state_);
  const std::uint8_t rule = connection_table::rule_of[static_cast<std::size_t>(event)][state];
  taken_[rule] = true;
  switch (connection_table::rules[rule].action) {
    case Do::ignore: break;
    case Do::impossible: assert(false); break;
    case Do::out_of_turn: return false;

    case Do::seek_place: seek_place(now, peer, out); break;
    case Do::accept: accept(now, peer, details, out); break;
    case Do::accept_after_leaving: accept_after_leaving(now, peer, details, out); break;
    case Do::refuse_crossed: refuse(details, wire::Reject::crossed, out); break;
    case Do::refuse_closing: refuse(details, wire::Reject::closing, out); break;
    case Do::refuse_over: refuse(details, wire::Reject::over, out); break;
    case Do::take_answer: take_answer(now, peer, *details.hello, out); break;
    case Do::take_loop: take_loop(now, peer, out); break;
    case Do::become_ready: become_ready(now, peer, out); break;
    case Do::wait: wait(peer, out); break;
    case Do::try_again: try_again(now, peer, details.reason, out); break;
    case Do::try_in_turn: try_in_turn(now, peer, out); break;
    case Do::hear_it_is_over: hear_it_is_over(now, peer, out); break;
    case Do::give_up:
      if (details.why != nullptr) {
        give_up(now, peer, *details.why, out);
      } else {
        give_up(now, peer, details.reason, out);
      }
      break;

    case Do::give_way: give_way(now, peer, out); break;
    case Do::give_way_unconfirmed: fence_unconfirmed(peer, PeerState::broken_wait, out); break;
    case Do::lose_lane: lose_lane(now, peer, *details.why, out); break;
    case Do::lose_parted_lane:  // without sessions it just ends: both agreed that all has arrived
      if (config_.resumes) {
        lose_lane(now, peer, *details.why, out);
      } else {
        part(now, peer, out);
      }
      break;
    case Do::ask: ask(now, peer, out); break;
    case Do::wait_a_while: wait_a_while(now, peer); break;
    case Do::stay_held: stay_held(now, peer); break;
    case Do::end_unless_in_session:
      if (peer.connection.is_in_session()) {
        ask(now, peer, out);
      } else {
        finish(now, peer, out);
      }
      break;
    case Do::fail_as_noted: {
      const std::unique_ptr<Failure> noted = std::move(peer.connection.noted_);
      give_up(now, peer, *noted, out);
      break;
    }
    case Do::note_failure:
      peer.connection.noted_ = std::make_unique<Failure>(*details.why);
      move_to(peer, PeerState::broken_fail);
      break;
    case Do::hold_lane: return hold_lane(now, peer, out);
    case Do::hold_unconfirmed: fence_unconfirmed(peer, PeerState::broken_hold, out); break;
    case Do::hold_attempt: hold_attempt(now, peer, out); break;
    case Do::hold_once_fenced: move_to(peer, PeerState::broken_hold); break;
    case Do::hold_longer: set_deadline(peer, deadline_of_hold(now, peer)); break;
    case Do::hold_in_vain: hold_in_vain(now, peer, out); break;
    case Do::give_away: return give_frames_away(now, peer, details.received, out);
    case Do::ask_once_fenced: move_to(peer, PeerState::broken_ask); break;

    case Do::note_left: move_to(peer, PeerState::left); break;
    case Do::leave_once_fenced: {
      const bool parts = event == Event::goodbye && peer.connection.broke_in_ == PeerState::parting;
      move_to(peer, parts ? PeerState::broken_part : PeerState::broken_leave);
      break;
    }
    case Do::part: part(now, peer, out); break;
    case Do::part_as_both_ask: part_as_both_ask(now, peer, out); break;
    case Do::answer_part: agree_to_part(peer, out); break;
    case Do::stay: stay(now, peer, out); break;
    case Do::stay_in_vain: return peer.connection.broke_in_ == PeerState::parting;
    case Do::end_if_drained:
      if (is_drained(peer)) part(now, peer, out);
      break;
    case Do::close_unused:
      if (!peer.wants.linked) move_to(peer, PeerState::closed);
      break;
    case Do::close_unmade: {  // pending frames go out first; then this is called again
      const bool waits = peer.connection.is_in_session() && !peer.connection.moved_;
      if (!waits && !listener_.has_work(peer)) finish(now, peer, out);
      break;
    }
    case Do::leave: leave(now, peer, out); break;
    case Do::say_goodbye: say_goodbye(now, peer, out); break;
    case Do::finish_if_drained:
      if (is_drained(peer)) finish(now, peer, out);
      break;
    case Do::finish: finish(now, peer, out); break;
  }
  return true;
}

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
  if (connection.state_ == PeerState::ready) places_.add(peer);
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

// The loop ends, because each event removes the peer from the list or sets a later deadline.
void Connector::on_timer(const Now& now, Outbox& out) {
  while (!due_.empty() && now >= due_.begin()->first) {
    on(Event::deadline, now, peers_[due_.begin()->second], out,
       {.reason = FailReason::connect_timeout});
  }
  if (!wants_places() || now < next_look_) return;
  begin_waiting(now, out);
  make_room(now, out);
}

void Connector::give_up(const Now& now, Peer& peer, const Failure& why, Outbox& out) {
  const PeerState broke_in = peer.connection.broke_in_;
  const bool leaves = broke_in == PeerState::closing || broke_in == PeerState::said;
  if (leaves && peer.connection.is_resuming()) return finish(now, peer, out);
  ++counters_.peer_failures;
  const Connection& connection = peer.connection;
  // Why the session did not go on says less than why it broke.
  const Failure first{peer.id, connection.broke_, connection.broke_with_, {}, {}};
  const bool resuming = connection.is_resuming() && connection.broke_ != FailReason::none &&
                        is_of_connecting(why.reason);
  Failure told = resuming ? first : why;
  told.lost_work = listener_.has_work(peer) ||
                   (connection.lane_ != LaneId::none && !lanes_[connection.lane_].queue.empty());
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
