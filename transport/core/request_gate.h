// Who has a say, besides credits and queues, in whether a request may reach the adapter, and by
// which way: what the processes of a node share (their tokens, their proxy). Those who post know
// only this; without such limits they have no gate and ask nobody.
//
// Pure; the caller serialises.
#pragma once

#include <cstdint>

#include "transport/base/now.h"
#include "transport/base/time.h"
#include "transport/core/peer.h"
#include "transport/lane/send_slot.h"

namespace weir {

class RequestGate {
 public:
  enum class Way : std::uint8_t {
    own_lane,  // it is posted, if it is admitted
    taken,     // another process sends it; the slot is the gate's until it retires it
    blocked,   // it waits, and what is behind it: the gate calls Sender::go_on
  };

  // A new frame that nothing is ahead of, and that has all else it needs: whether it may go at
  // once. If so it counts as posted.
  virtual bool passes(const SendSlot& frame) = 0;

  // Which way the oldest pending frame of the peer goes.
  virtual Way way(const Now& now, Peer& peer, SendSlot& frame) = 0;

  // The same frame has credits and room in the queue now. True: it counts as posted. False: it
  // waits, and the gate calls Sender::go_on.
  virtual bool admit(const Now& now, Peer& peer, SendSlot& frame) = 0;

  // The same of a chunk; `tokens` of the node's go with it. False: the gate calls Transfers::issue.
  virtual bool admit_chunk(const Now& now, std::uint32_t bytes, std::uint16_t& tokens) = 0;

 protected:
  ~RequestGate() = default;
};

}  // namespace weir
