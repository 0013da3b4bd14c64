// The line in front of the node's tokens: whose request is next while this process has to wait for
// them (flowctl/admission.h).
//
// Frames of messages and chunks take tokens. Control frames and probes do not: others wait for
// them, perhaps with tokens.
//
// While the process has a ticket that waits, its peers with frames and its chunks stand in line for
// it and have a request each in turn. The front of the line is whose request the ticket is for.
//
// Pure but for Admission's pool, which is memory of all the node's processes; the caller
// serialises. Allocates nothing.
#pragma once

#include <cstdint>

#include "flowctl/admission.h"
#include "transport/base/counters.h"
#include "transport/base/list.h"
#include "transport/base/now.h"
#include "transport/base/time.h"
#include "transport/core/config.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/sender.h"
#include "transport/core/transfers.h"
#include "transport/lane/send_slot.h"

namespace weir {

class NodeLine {
 public:
  // All of these outlive this.
  NodeLine(const CoreConfig& config, Counters& counters, Sender& sender, Transfers& transfers)
      : counters_(counters), sender_(sender), transfers_(transfers), admission_(config.admission) {}

  // The node's pool; without one limits are by rate.
  void join(PoolMember::Pool* requests) { admission_.join(requests); }

  // Requests are limited at all.
  bool on() const { return admission_.on(); }

  // As RequestGate has them.
  bool passes(const SendSlot& frame);
  bool admit(const Now& now, Peer& peer, SendSlot& frame) {
    return !admission_.on() || admit_frame(now, peer, frame);
  }
  bool admit_chunk(const Now& now, std::uint32_t bytes, std::uint16_t& tokens);

  // A request has left the adapter, or will without anybody hearing of it. Limits are on.
  void on_over(std::uint16_t tokens) {
    admission_.set_active(--in_adapter_);
    if (tokens > 0) give(tokens);
  }
  // Nothing of the peer waits any more.
  void forget(Peer& peer) {
    if (peer.waits.linked) line_.remove(&peer);
  }

  // Something waits for tokens, or for a delay: `look` has to be called now and then.
  bool waits() const { return admission_.waiting(); }
  // Posts what can go.
  void look(const Now& now, Outbox& out);
  // Nobody waits for ever for a process that lives but does not move. To be called before `look`.
  void excuse_stuck(const Now& now);
  // Requests are in the adapter whose tokens others may wait for.
  bool holds_tokens() const { return admission_.member().out() > 0; }

 private:
  [[gnu::noinline]] bool admit_frame(const Now& now, Peer& peer, SendSlot& frame);
  [[gnu::noinline]] void give(std::uint16_t tokens);
  bool has_turn(bool others_wait) const;
  void book_posted() {
    turn_taken_ = true;
    admission_.set_active(++in_adapter_);
  }
  void count();

  Counters& counters_;
  Sender& sender_;
  Transfers& transfers_;
  Admission admission_;
  List<Peer, &Peer::waits> line_;  // in turn; the front one has the ticket
  bool chunks_wait_ = false;       // so do chunks
  bool chunks_turn_ = false;       // which come before all of them now
  bool serving_ = false;           // the line is gone through,
  bool turn_taken_ = false;        // and who is at its front has had its request
  Time next_excuse_{};
  Time next_read_excuse_{};
  std::uint64_t in_adapter_ = 0;  // frames and chunks
};

}  // namespace weir
