// One frame on its way out: registered memory and its bookkeeping.
//
// The engine's pool owns the slot and lends it to the core from `send` until the core hands it
// back as retired. The core writes headers; whoever asked for the slot writes the payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/wire/frame.h"

namespace weir {

struct SendSlot {
  SendSlot* next = nullptr;          // link in the pool's free list or a peer's pending queue
  std::byte* frame = nullptr;        // first byte of the frame header
  std::uint32_t capacity_bytes = 0;  // of the memory at `frame`
  std::uint32_t lkey = 0;
  std::uint32_t frame_bytes = 0;  // frame so far, headers included
  std::uint16_t messages = 0;     // messages in it
  std::uint16_t tokens = 0;       // tokens of the node, while in flight
  std::uint8_t pool = 0;          // the engine's size class
  bool notify = false;            // the layer above waits to hear that the slot is retired
  bool wakes = false;             // only the peer's software can answer it (wire::Wakes)
  bool is_car = false;            // of a train (train.h)
  std::uint16_t carrier = 0;      // relay_server.h: its number, if the slot is for relayed frames
  wire::FrameKind kind = wire::FrameKind::messages;  // or relayed, or repeated
  void* slab = nullptr;  // the engine's: whose memory it is
  void* user = nullptr;  // for the layer above; the core never looks at it

  // Becomes a copy of a frame that fits, to go over another lane.
  void copy(const SendSlot& of) {
    std::memcpy(frame, of.frame, of.frame_bytes);
    frame_bytes = of.frame_bytes;
    messages = of.messages;
    notify = of.notify;
    wakes = of.wakes;
    is_car = of.is_car;
    user = of.user;
  }

  // Where the payload of the frame's first message belongs.
  std::byte* payload() const { return frame + wire::first_payload_offset; }
  std::uint32_t payload_capacity_bytes() const {
    return capacity_bytes - static_cast<std::uint32_t>(wire::first_payload_offset);
  }
};

}  // namespace weir
