// Besides credits and queues, what the processes of a node share (tokens, proxy) limits whether a
// request may reach the adapter, and by which way. The rooms that post know only this interface;
// without such limits they have no gate and ask nobody.
//
// Pure; the caller serialises.
#pragma once

#include <cstdint>

#include "base/now.h"
#include "base/time.h"
#include "transport/core/peer.h"
#include "transport/lane/send_slot.h"

namespace weir {

class RequestGate {
 public:
  enum class Way : std::uint8_t {
    own_lane,  // posted there, if admitted
    taken,     // another process sends it; the gate keeps the slot until the slot retires
    blocked,   // this frame and all behind it wait: the gate calls Sender::go_on
  };

  // Whether a new frame may go at once; nothing is ahead of it, and it has all else it needs. If
  // so, it counts as posted.
  virtual bool passes(const SendSlot& frame) = 0;

  // Which way the oldest pending frame of the peer goes.
  virtual Way way(const Now& now, Peer& peer, SendSlot& frame) = 0;

  // The same frame now has credits and room in the queue. True: it counts as posted. False: it
  // waits, and the gate calls Sender::go_on.
  virtual bool admit(const Now& now, Peer& peer, SendSlot& frame) = 0;

  // The same for a chunk; returns its `tokens` of the node. False: the gate calls Transfers::issue.
  virtual bool admit_chunk(const Now& now, std::uint32_t bytes, std::uint16_t& tokens) = 0;

 protected:
  ~RequestGate() = default;
};

}  // namespace weir
