// What the processes of a node share: tokens that a request takes before it may reach the adapter
// (flowctl/admission.h), and the read budget (rendezvous/node_reads.h).
//
// Frames of messages and chunks take tokens. Control frames and probes do not: others wait for
// them, perhaps with tokens.
//
// While the process has a ticket that waits, its peers with frames and its chunks stand in line for
// it and have a request each in turn. The front of the line is whose request the ticket is for.

#include <algorithm>

#include "transport/core/core.h"

namespace weir {
namespace {

// Longer than an event thread takes to give back what an application that computes has left.
constexpr Duration node_patience = milliseconds(20);

}  // namespace

// Whoever asks when nobody waits, and in the line whose turn it is: for one request if there are
// others.
bool Core::has_turn(bool others_wait) const {
  if (!serving_node_) return !admission_.waiting();
  return !turn_taken_ || !others_wait;
}

bool Core::admit_frame(Time now, Peer& peer, SendSlot& slot) {
  const std::uint64_t waits = admission_.waits();
  const bool others = chunks_wait_ || !waiters_.empty();
  if (has_turn(others) && admission_.admit(now, slot.frame_bytes, slot.tokens)) {
    book_posted();
    if (slot.tokens > 0) book_node();
    return true;
  }
  const bool drew = admission_.waits() != waits;
  if (!peer.waits.linked) drew ? waiters_.push_front(&peer) : waiters_.push(&peer);
  if (drew) chunks_turn_ = false;
  book_node();
  return false;
}

bool Core::admit_chunk(Time now, std::uint32_t bytes, std::uint16_t& tokens) {
  const std::uint64_t waits = admission_.waits();
  if (has_turn(!waiters_.empty()) && admission_.admit(now, bytes, tokens)) {
    book_posted();
    if (tokens > 0) book_node();
    return true;
  }
  chunks_wait_ = true;
  if (admission_.waits() != waits) chunks_turn_ = true;
  book_node();
  return false;
}

// The line goes on when what its front waits for is there.
void Core::look_at_node(Time now, Outbox& out) {
  excuse_stuck(now);
  if (scheduler_.waits_for_node()) issue_chunks(now, out);
  if (!admission_.waiting() || !admission_.over(now)) return;
  serving_node_ = true;
  while (!admission_.waiting()) {
    turn_taken_ = false;
    if (chunks_wait_ && (chunks_turn_ || waiters_.empty())) {
      chunks_wait_ = chunks_turn_ = false;
      issue_chunks(now, out);
    } else if (Peer* const peer = waiters_.pop()) {
      chunks_turn_ = true;
      if (peer->state == PeerState::ready || peer->state == PeerState::closing) {
        post_pending(now, *peer, peer->in_held_list, out);
      }
    } else {
      admission_.decline();
      break;
    }
  }
  serving_node_ = false;
  book_node();
}

// Nobody waits for ever for a process that lives but does not move.
void Core::excuse_stuck(Time now) {
  if (now >= next_excuse_) {
    next_excuse_ = now + node_patience;
    counters_.tokens_excused += admission_.excuse();
  }
  if (now >= next_read_excuse_) {
    next_read_excuse_ = now + std::max(node_patience, scheduler_.node_patience());
    counters_.tokens_excused += scheduler_.excuse_stuck();
  }
}

void Core::give_tokens(std::uint16_t tokens) {
  admission_.give(tokens);
  book_node();
}

void Core::book_node() {
  const Admission::Counts& counts = admission_.counts();
  counters_.token_requests = counts.counted;
  counters_.token_waits = counts.token_waits;
  counters_.rate_waits = counts.rate_waits;
  counters_.tokens_out = admission_.member().out();
}

}  // namespace weir
