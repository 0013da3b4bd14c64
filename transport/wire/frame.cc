#include "transport/wire/frame.h"

namespace weir::wire {

namespace {

// None at all, or one that answers reads.
bool check_lane_end(const std::byte* frame) {
  std::uint64_t word;
  std::memcpy(&word, frame + frame_header_bytes, sizeof word);
  const LaneEnd end = get_lane_end(frame + frame_header_bytes);
  return end.qp_number == 0 ? word == 0 : end.reads > 0 && word >> 56 <= 1;
}

}  // namespace

bool check_frame(const std::byte* frame, std::size_t size) {
  if (size < frame_header_bytes) return false;
  const FrameHeader header = get_frame_header(frame);
  switch (header.kind) {
    case FrameKind::messages: break;
    case FrameKind::credits:
    case FrameKind::goodbye:
    case FrameKind::recall:
    case FrameKind::returned: return size == frame_header_bytes;
    case FrameKind::lane_end: return size == lane_frame_bytes && check_lane_end(frame);
    default: return false;
  }

  std::size_t at = frame_header_bytes;
  if (at == size) return false;  // a frame of messages has at least one
  while (at < size) {
    if (size - at < message_header_bytes) return false;
    const MessageHeader message = get_message_header(frame + at);
    std::uint64_t word;
    std::memcpy(&word, frame + at, sizeof word);
    if (word >> 40 != 0) return false;
    if (message.length_bytes > size - at - message_header_bytes) return false;
    // The last message of a frame need not be padded.
    const std::size_t padded = message_bytes(message.length_bytes);
    const std::size_t exact = message_header_bytes + message.length_bytes;
    if (size - at == exact) return true;
    if (padded > size - at) return false;
    at += padded;
  }
  return true;
}

}  // namespace weir::wire
