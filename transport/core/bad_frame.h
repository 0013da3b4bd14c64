// What can be wrong with the bytes of a frame, and the data for a report of it.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir {

enum class FrameFault : std::uint8_t {
  none,
  twice,             // the device delivered it before; Soft-RoCE does so, the peer is not to blame
  lane,              // it came on a lane for fetches, which carries no frames
  length,            // it is longer than a receive buffer
  layout,            // its headers and messages do not fit together
  sequence,          // another frame was due on the lane
  after_goodbye,     // the peer had said goodbye
  eager_credits,     // sent without an eager credit
  control_credits,   // sent without a control credit, or it returns more than we were given
  returned_credits,  // it gives back credits that it did not have
  granted_credits,   // it grants more credits than any receive queue is deep
  relayed,           // relayed for a process outside the job, or out of turn
  lane_end,          // the end of a lane for fetches was not due
  handover,          // it is about other rails, and there are none
  part,              // it asks to part twice, or answers what was not asked
};

// A short sentence without a full stop, for a person.
const char* to_text(FrameFault fault);

// What is known about a frame that no correct peer sends.
struct BadFrame {
  FrameFault fault = FrameFault::none;
  std::uint32_t due = 0;         // the sequence number expected on the lane
  std::uint32_t size_bytes = 0;  // of the frame, as completed
  std::array<std::byte, 24> begin{};
};

[[gnu::noinline]] BadFrame describe(FrameFault fault, std::uint32_t due, const std::byte* frame,
                                    std::size_t size);

}  // namespace weir
