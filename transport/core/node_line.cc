#include "transport/core/node_line.h"

#include <algorithm>

namespace weir {

bool NodeLine::passes(const SendSlot& frame) {
  if (chunks_wait_ || !line_.empty() || !admission_.passes(frame.frame_bytes)) return false;
  book_posted();
  return true;
}

// If nobody waits, anybody may go. While the line is served, its front may go: once, if others
// wait.
bool NodeLine::has_turn(bool others_wait) const {
  if (!serving_) return !admission_.waiting();
  return !turn_taken_ || !others_wait;
}

bool NodeLine::admit_frame(const Now& now, Peer& peer, SendSlot& frame) {
  const std::uint64_t waits = admission_.waits();
  const bool others = chunks_wait_ || !line_.empty();
  if (has_turn(others) && admission_.admit(now, frame.frame_bytes, frame.tokens)) {
    book_posted();
    if (frame.tokens > 0) count();
    return true;
  }
  const bool drew = admission_.waits() != waits;
  if (!peer.waits.linked) drew ? line_.push_front(&peer) : line_.push(&peer);
  if (drew) chunks_turn_ = false;
  count();
  return false;
}

bool NodeLine::admit_chunk(const Now& now, std::uint32_t bytes, std::uint16_t& tokens) {
  if (!admission_.limits()) return true;
  const std::uint64_t waits = admission_.waits();
  if (has_turn(!line_.empty()) && admission_.admit(now, bytes, tokens)) {
    book_posted();
    if (tokens > 0) count();
    return true;
  }
  chunks_wait_ = true;
  if (admission_.waits() != waits) chunks_turn_ = true;
  count();
  return false;
}

// Serves the line once the ticket of its front is granted.
void NodeLine::look(const Now& now, Outbox& out) {
  if (!admission_.waiting() || !admission_.over(now)) return;
  serving_ = true;
  while (!admission_.waiting()) {
    turn_taken_ = false;
    if (chunks_wait_ && (chunks_turn_ || line_.empty())) {
      chunks_wait_ = chunks_turn_ = false;
      transfers_.issue(now, out);
    } else if (Peer* const peer = line_.pop()) {
      chunks_turn_ = true;
      if (peer->connection.is_open()) sender_.go_on(now, *peer, out);
    } else {
      admission_.decline();
      break;
    }
  }
  serving_ = false;
  count();
}

void NodeLine::begin_look(const Now& now) {
  if (now >= next_look_at_all_) {
    next_look_at_all_ = now + look_at_all_interval;
    admission_.look_at_all();
    transfers_.look_at_all_of_node();
  }
  if (now >= next_excuse_) {
    next_excuse_ = now + patience;
    counters_.tokens_excused += admission_.excuse();
  }
  if (now >= next_read_excuse_) {
    next_read_excuse_ = now + std::max(patience, transfers_.excuse_after());
    counters_.tokens_excused += transfers_.excuse_stuck();
  }
}

void NodeLine::give(std::uint16_t tokens) {
  admission_.give(tokens);
  count();
}

void NodeLine::count() {
  const Admission::Counts& counts = admission_.counts();
  counters_.token_requests = counts.counted;
  counters_.token_waits = counts.token_waits;
  counters_.rate_waits = counts.rate_waits;
  counters_.tokens_out = admission_.member().out();
}

}  // namespace weir
