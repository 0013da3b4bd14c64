// The line in front of the node's tokens: which request is next while this process has to wait for
// tokens, or for its pace (flowctl/admission.h).
//
// Frames of messages and chunks take tokens. Control frames and probes do not: other processes wait
// for them, perhaps while holding tokens.
//
// While the process has a ticket that waits, its chunks and its peers with frames stand in line and
// get one request each in turn. The ticket is for the request at the front of the line.
//
// Pure except for Admission's pool, which is memory of all the node's processes; the caller
// serialises. Allocates nothing.
#pragma once

#include <cstdint>

#include "base/counters.h"
#include "base/list.h"
#include "base/now.h"
#include "base/time.h"
#include "flowctl/admission.h"
#include "transport/core/config.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/sender.h"
#include "transport/core/transfers.h"
#include "transport/lane/send_slot.h"

namespace weir {

class NodeLine {
 public:
  // Time between two looks for processes that do not move. An event thread needs less to give back
  // the tokens that a computing application has left (drive/attendance.h).
  static constexpr Duration patience = milliseconds(20);
  // Time between two looks at all processes. Those between see a few, in turn: whoever polls has
  // seen hundreds by then.
  static constexpr Duration look_at_all_interval = microseconds(100);

  // All arguments outlive this object.
  NodeLine(const CoreConfig& config, Counters& counters, Sender& sender, Transfers& transfers)
      : counters_(counters), sender_(sender), transfers_(transfers), admission_(config.admission) {}

  // The node's pool; without a pool, limits are by rate.
  void join(PoolMember::Pool* requests) { admission_.join(requests); }

  void limit(std::uint32_t tokens, std::uint64_t bytes_per_second) {
    admission_.limit_tokens(tokens);
    admission_.limit_pace(bytes_per_second);
  }

  // The ends of requests have to be told.
  bool on() const { return admission_.on(); }
  // Requests need a gate.
  bool limits() const { return admission_.limits(); }

  // As in RequestGate.
  bool passes(const SendSlot& frame);
  bool admit(const Now& now, Peer& peer, SendSlot& frame) {
    return !admission_.limits() || admit_frame(now, peer, frame);
  }
  bool admit_chunk(const Now& now, std::uint32_t bytes, std::uint16_t& tokens);

  // A request has left the adapter, or will leave it without a completion. If `on`.
  void on_over(std::uint16_t tokens) {
    admission_.set_active(--in_adapter_);
    if (tokens > 0) give(tokens);
  }
  // No frame for the peer waits any more.
  void forget(Peer& peer) {
    if (peer.waits.linked) line_.remove(&peer);
  }

  // Something waits for tokens, or for a delay: call `look` now and then.
  bool waits() const { return admission_.waiting(); }
  // Posts what can go.
  void look(const Now& now, Outbox& out);
  // Lets the next look ask all the node's processes, if that is due. Keeps one that lives but does
  // not move from blocking others for ever. Call before `look`.
  void begin_look(const Now& now);
  // The adapter has requests whose tokens other processes may wait for.
  bool holds_tokens() const { return admission_.member().out() > 0; }

 private:
  [[gnu::noinline]] bool admit_frame(const Now& now, Peer& peer, SendSlot& frame);
  [[gnu::noinline]] void give(std::uint16_t tokens);
  bool has_turn(bool others_wait) const;
  void book_posted() {
    turn_taken_ = true;
    if (admission_.on()) admission_.set_active(++in_adapter_);
  }
  void count();

  Counters& counters_;
  Sender& sender_;
  Transfers& transfers_;
  Admission admission_;
  List<Peer, &Peer::waits> line_;  // in turn; the front peer has the ticket
  bool chunks_wait_ = false;       // chunks wait, too
  bool chunks_turn_ = false;       // the chunks come before all peers now
  bool serving_ = false;           // the line is being served
  bool turn_taken_ = false;        // the front of the line has had its request
  Time next_look_at_all_{};
  Time next_excuse_{};
  Time next_read_excuse_{};
  std::uint64_t in_adapter_ = 0;  // frames and chunks
};

}  // namespace weir
