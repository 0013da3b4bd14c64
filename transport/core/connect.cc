// Connections: made at the first message, from either side, once; ended with a goodbye, or by
// failure. The states and their edges are in transport/lane/peer_state.h.

#include <algorithm>
#include <cassert>

#include "transport/core/core.h"

namespace weir {

using Kind = ConnectAction::Kind;

LaneId Core::new_lane(const Peer& peer) {
  LaneId id;
  if (free_lanes_.empty()) {
    id = LaneId{lanes_.size()};
    lanes_.emplace_back(config_.queue);
  } else {
    id = free_lanes_.back();
    free_lanes_.pop_back();
    at(id) = Lane(config_.queue);
  }
  at(id).peer = id_of(peer);
  at(id).open = true;
  return id;
}

void Core::drop_lane(Peer& peer, Outbox& out) {
  if (peer.lane == LaneId::none) return;
  drop_bulk_lane(peer, out);
  release_lane(peer.lane, out);
  peer.lane = LaneId::none;
}

void Core::release_lane(LaneId id, Outbox& out) {
  Lane& lane = at(id);
  lane.queue.abandon([&](SendSlot* slot) { landed(slot, false, out); },
                     [&](const RdmaInFlight& chunk) { landed(chunk); });
  lane.open = false;
  out.act({.kind = Kind::drop, .peer = lane.peer, .lane = id});
}

// Only now, for until then completions and events of the old queue pair may still name it.
void Core::on_dropped(LaneId lane) { free_lanes_.push_back(lane); }

// Makes room in the window for one more peer and greets it with its first credits.
wire::Hello Core::hello_to(Peer& peer, Outbox& out) {
  post_receives(out);
  wire::Hello hello;
  hello.from = config_.self;
  hello.to = peer.name;
  hello.buffer_bytes = config_.buffer_bytes;
  hello.credits = static_cast<std::uint16_t>(top_up(peer, UINT16_MAX));
  if (const std::uint32_t beyond = eager_.overcommit(peer.share); beyond > 0) {
    hello.credits = static_cast<std::uint16_t>(hello.credits + beyond);
    counters_.credits_overcommitted += beyond;
  }
  hello.control_credits = static_cast<std::uint8_t>(config_.credits.control_reserve);
  hello.fetches = static_cast<std::uint8_t>(config_.fetches_answered);
  return hello;
}

// No more than we start, and than the peer's adapter answers. [IBTA 9.4.3]
void Core::agree_on_fetches(Peer& peer, std::uint32_t answered) {
  peer.most_fetches = std::clamp(answered, 1u, config_.max_rd_atomic);
}

// Makes room in the window for a peer. Its first credits may be covered only once the engine has
// answered with a slab, which it does before the peer can have sent anything.
void Core::admit(Peer& peer, Outbox& out) {
  if (window_.raise_to(eager_.floor(peer.share))) window_changed(out);
  eager_.join(peer.share);
}

void Core::connect(Time now, Peer& peer, Outbox& out) {
  peer.connect_since = now;
  peer.attempt_deadline = now + config_.attempt_timeout;
  peer.trouble = FailReason::connect_timeout;
  move_to(peer, PeerState::connecting);
  admit(peer, out);
  peer.lane = new_lane(peer);
  peer.credits = 0;  // what an attempt before this one may have brought
  peer.control_credits = 0;
  peer.control_owed = 0;
  // The time, so that numbers rise even should this process have forgotten what it used before.
  peer.attempt = std::max(peer.attempt + 1, static_cast<std::uint64_t>(now.ns));
  const Kind kind = peer.name == config_.self ? Kind::loop : Kind::connect;
  wire::Hello hello = hello_to(peer, out);
  hello.key = peer.key;
  hello.attempt = peer.attempt;
  out.act({.kind = kind, .peer = id_of(peer), .lane = peer.lane, .hello = hello});
}

void Core::on_request(Time now, RequestId request, const wire::Hello& hello, Outbox& out) {
  const auto reject = [&](wire::Reject reason) {
    out.act({.kind = Kind::reject, .request = request, .reason = reason, .hello = hello});
  };
  if (hello.to != config_.self || hello.from == config_.self || hello.key != config_.key) {
    return reject(wire::Reject::stranger);
  }
  if (wire::common_version(hello.protocol_min, hello.protocol_max) == 0) {
    return reject(wire::Reject::version);
  }
  if (hello.buffer_bytes != config_.buffer_bytes) return reject(wire::Reject::buffer);

  const PeerId id = find_or_make(hello.from);
  Peer& peer = at(id);
  // An older request that a newer one overtook must not end what the newer one began.
  if (hello.attempt <= peer.attempt_seen) return reject(wire::Reject::crossed);
  switch (peer.state) {
    case PeerState::closing:
    case PeerState::failed: return reject(wire::Reject::closing);
    case PeerState::ready:
      if (!peer.left) return reject(wire::Reject::crossed);
      finish_close(now, peer, out);  // it left, and is back before we heard of the disconnect
      break;
    case PeerState::connecting:
      if (peer.lane != LaneId::none) {
        ++counters_.connections_crossed;
        if (config_.self < peer.name) return reject(wire::Reject::crossed);
      }
      break;
    case PeerState::accepting:  // it asks again: our answer to its first request was lost
    case PeerState::idle:
    case PeerState::closed: break;
  }
  const Time since = is_waiting(peer.state) ? peer.connect_since : now;
  drop_lane(peer, out);
  reset_session(peer);
  peer.connect_since = since;
  // The connection manager repeats our answer; only its silence is to be bounded here. Shorter
  // than the asker's own patience, it would break connections that the asker believes in.
  peer.attempt_deadline = now + config_.connect_timeout;
  move_to(peer, PeerState::accepting);
  peer.attempt_seen = hello.attempt;
  admit(peer, out);
  peer.lane = new_lane(peer);
  peer.credits = hello.credits;
  peer.control_credits = static_cast<std::uint8_t>(
      std::min<std::uint32_t>(hello.control_credits, config_.credits.control_reserve));
  agree_on_fetches(peer, hello.fetches);
  wire::Hello answer = hello_to(peer, out);
  answer.key = config_.key;
  answer.attempt = hello.attempt;
  out.act(
      {.kind = Kind::accept, .peer = id, .lane = peer.lane, .request = request, .hello = answer});
  ++counters_.connections_accepted;
}

void Core::on_answer(Time now, LaneId lane, const wire::Hello& hello, Outbox& out) {
  if (open_lane(lane) == nullptr) return;
  Peer& peer = at(at(lane).peer);
  if (peer.state != PeerState::connecting) return;
  if (hello.from != peer.name || hello.to != config_.self || hello.key != peer.key ||
      hello.attempt != peer.attempt) {
    return fail(now, peer, FailReason::rejected_stranger, CompletionStatus::success, out);
  }
  if (wire::common_version(hello.protocol_min, hello.protocol_max) == 0) {
    return fail(now, peer, FailReason::rejected_version, CompletionStatus::success, out);
  }
  if (hello.buffer_bytes != config_.buffer_bytes) {
    return fail(now, peer, FailReason::rejected_buffer, CompletionStatus::success, out);
  }
  peer.credits += hello.credits;  // a frame that overtook the answer may have brought some
  peer.control_credits = static_cast<std::uint8_t>(
      std::min<std::uint32_t>(hello.control_credits, config_.credits.control_reserve));
  agree_on_fetches(peer, hello.fetches);
  become_ready(now, peer, out);
}

void Core::on_established(Time now, LaneId lane, Outbox& out) {
  if (open_lane(lane) == nullptr) return;
  Peer& peer = at(at(lane).peer);
  if (peer.state == PeerState::accepting) {
    become_ready(now, peer, out);
  } else if (peer.state == PeerState::connecting && peer.name == config_.self) {
    // Looped: what we granted to "the peer" is what we may use.
    peer.credits = peer.share.out;
    peer.control_credits = static_cast<std::uint8_t>(config_.credits.control_reserve);
    agree_on_fetches(peer, config_.fetches_answered);
    become_ready(now, peer, out);
  }
}

void Core::become_ready(Time now, Peer& peer, Outbox& out) {
  move_to(peer, PeerState::ready);
  peer.attempt_deadline = Time::never();
  ++counters_.connections;
  counters_.connect_ns_sum += static_cast<std::uint64_t>((now - peer.connect_since).ns);
  note_due(peer);
  post_pending(now, peer, false, out);
  let_chunks_go(now, peer, out);
  if (const wire::LaneEnd theirs = std::exchange(peer.bulk.theirs, {}); theirs.qp_number != 0) {
    take_bulk_end(now, peer, theirs, out);  // it overtook the answer
  }
}

void Core::on_rejected(Time now, LaneId lane, wire::Reject reason, Outbox& out) {
  if (open_lane(lane) == nullptr) return;
  Peer& peer = at(at(lane).peer);
  if (peer.state != PeerState::connecting) return;
  switch (reason) {
    case wire::Reject::crossed:
      // The peer's own request is on its way; should it get lost, the timer asks again.
      drop_lane(peer, out);
      eager_.take_back(peer.share);
      counters_.credits_out = eager_.out();
      return;
    case wire::Reject::stranger:
      return fail(now, peer, FailReason::rejected_stranger, CompletionStatus::success, out);
    case wire::Reject::version:
      return fail(now, peer, FailReason::rejected_version, CompletionStatus::success, out);
    case wire::Reject::buffer:
      return fail(now, peer, FailReason::rejected_buffer, CompletionStatus::success, out);
    case wire::Reject::closing: return retry_or_fail(now, peer, FailReason::connect_refused, out);
  }
}

void Core::on_connect_failed(Time now, LaneId lane, FailReason reason, Outbox& out) {
  if (open_lane(lane) == nullptr) return;
  Peer& peer = at(at(lane).peer);
  if (!is_waiting(peer.state)) return;
  // No address or route: for now, perhaps. A link may come back, or a subnet manager.
  const bool passing =
      reason == FailReason::connect_timeout || reason == FailReason::connect_unreachable;
  if (passing || peer.state == PeerState::accepting) {
    retry_or_fail(now, peer, reason, out);
  } else {
    fail(now, peer, reason, CompletionStatus::success, out);
  }
}

// One that had failed before was only waiting; its reason is the one to tell in the end.
void Core::give_up_attempt(Time now, Peer& peer, Outbox& out) {
  if (peer.lane != LaneId::none) {
    retry_or_fail(now, peer, FailReason::connect_timeout, out);
  } else if (now - peer.connect_since >= config_.connect_timeout) {
    fail(now, peer, peer.trouble, CompletionStatus::success, out);
  } else {
    retry(now, peer, out);
  }
}

void Core::retry_or_fail(Time now, Peer& peer, FailReason reason, Outbox& out) {
  if (peer.state == PeerState::accepting && !has_work(peer)) {
    // The asker went away, and we have nothing to say to it.
    return finish_close(now, peer, out);
  }
  if (now - peer.connect_since >= config_.connect_timeout) {
    return fail(now, peer, reason, CompletionStatus::success, out);
  }
  if (reason == FailReason::connect_refused || reason == FailReason::connect_unreachable) {
    // It is closing an earlier connection, or the network is changing: ask again at the deadline of
    // this attempt.
    drop_lane(peer, out);
    eager_.take_back(peer.share);
    peer.trouble = reason;
    return;
  }
  retry(now, peer, out);
}

void Core::retry(Time now, Peer& peer, Outbox& out) {
  ++counters_.connect_retries;
  const Time since = peer.connect_since;
  drop_lane(peer, out);
  eager_.take_back(peer.share);
  if (peer.state == PeerState::accepting) move_to(peer, PeerState::connecting);
  connect(now, peer, out);
  peer.connect_since = since;
}

void Core::on_disconnected(Time now, LaneId lane, Outbox& out) {
  if (open_lane(lane) == nullptr) return;
  Peer& peer = at(at(lane).peer);
  if (is_waiting(peer.state)) {  // the asker gave up this attempt
    return retry_or_fail(now, peer, FailReason::connect_timeout, out);
  }
  if (peer.left) return finish_close(now, peer, out);
  fail(now, peer, FailReason::vanished, CompletionStatus::success, out);
}

void Core::on_lane_error(Time now, LaneId lane, Outbox& out) {
  if (open_lane(lane) == nullptr) return;
  Peer& peer = at(at(lane).peer);
  if (peer.left) return finish_close(now, peer, out);
  fail(now, peer, FailReason::send_failed, CompletionStatus::fatal_err, out);
}

void Core::fail(Time now, Peer& peer, const Failure& why, Outbox& out) {
  if (peer.state == PeerState::failed || peer.state == PeerState::closed) return;
  if (peer.state == PeerState::closing) return finish_close(now, peer, out);  // we leave anyway
  ++counters_.peer_failures;
  move_to(peer, PeerState::failed);
  out.report(why);
  drop_lane(peer, out);
  drop_transfers(now, peer, out);
  reset_session(peer);
  drop_pending(peer, out);
  drop_relayed(peer, out);
}

void Core::close(Time now, PeerId id, Outbox& out) {
  Peer& peer = at(id);
  switch (peer.state) {
    case PeerState::idle: move_to(peer, PeerState::closed); return;
    case PeerState::closed:
    case PeerState::failed: return;
    case PeerState::closing:
      try_finish_close(now, peer, out);  // the goodbye may have found no slot
      return;
    case PeerState::connecting:
    case PeerState::accepting:
      if (!has_work(peer)) finish_close(now, peer, out);
      return;  // otherwise call again: what is pending has to go out first
    case PeerState::ready:
      post_pending(now, peer, false, out);
      if (has_work(peer) && !peer.left) return;  // likewise
      move_to(peer, PeerState::closing);
      try_finish_close(now, peer, out);
      return;
  }
}

// Sends the goodbye if it has not gone yet, and ends when all that was posted is delivered.
void Core::try_finish_close(Time now, Peer& peer, Outbox& out) {
  if (peer.left) return finish_close(now, peer, out);
  if (!peer.goodbye_sent) peer.goodbye_sent = send_control(peer, wire::FrameKind::goodbye, 0, out);
  if (peer.goodbye_sent && at(peer.lane).queue.empty()) finish_close(now, peer, out);
}

void Core::finish_close(Time now, Peer& peer, Outbox& out) {
  drop_lane(peer, out);
  drop_transfers(now, peer, out);
  move_to(peer, PeerState::closed);
  reset_session(peer);
  drop_pending(peer, out);
  drop_relayed(peer, out);
}

void Core::abandon(Time now, PeerId id, Outbox& out) {
  Peer& peer = at(id);
  if (peer.state == PeerState::closed) return;
  finish_close(now, peer, out);
}

bool Core::closed(PeerId id) const {
  const PeerState state = at(id).state;
  return state == PeerState::idle || state == PeerState::closed || state == PeerState::failed;
}

// Forgets everything that belonged to the last connection; pending frames stay.
void Core::reset_session(Peer& peer) {
  eager_.leave(peer.share);
  counters_.credits_out = eager_.out();
  peer.left = false;
  peer.goodbye_sent = false;
  peer.credits = 0;
  peer.control_credits = 0;
  peer.control_owed = 0;
  peer.attempt_deadline = Time::never();
}

}  // namespace weir
