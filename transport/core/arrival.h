// Takes frames from a lane: checks a whole frame before any of it is used, and books what its
// header says. Bytes from a peer are untrusted.
//
// Frames of a lane come in order and once; a frame that the device delivers again is ignored.
//
// Pure; the caller serialises.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "transport/core/bad_frame.h"
#include "transport/core/config.h"
#include "transport/core/lanes.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/receiver.h"
#include "transport/core/sender.h"
#include "transport/wire/frame.h"

namespace weir {

class Arrival {
 public:
  // All arguments outlive this object.
  Arrival(const CoreConfig& config, Receiver& receiver, Sender& sender)
      : config_(config), receiver_(receiver), sender_(sender) {}

  // `none`: the frame is good, and its `header` is booked. `twice`: ignore the frame, if the device
  // may repeat frames. Anything else: no correct peer sends such a frame.
  FrameFault take(Peer& peer, Lane& lane, const std::byte* frame, std::size_t size,
                  wire::FrameHeader& header);

 private:
  FrameFault take_header(Peer& peer, Lane& lane, const wire::FrameHeader& header);

  const CoreConfig& config_;
  Receiver& receiver_;
  Sender& sender_;
};

// Hands up the messages in checked bytes of a buffer.
inline void deliver(const Peer& from, BufferId buffer, const std::byte* messages, std::size_t size,
                    Counters& counters, Outbox& out) {
  wire::walk_messages(
      messages, size,
      [&](const std::byte* payload, std::uint32_t length_bytes, std::uint8_t tag, bool last) {
        out.deliveries.push_back({from.id, buffer, from.above, payload, length_bytes, tag, last});
        ++counters.messages_received;
        counters.bytes_received += length_bytes;
      });
}

}  // namespace weir
