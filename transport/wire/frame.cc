#include "transport/wire/frame.h"

namespace weir::wire {

namespace {

// One that answers reads, or none; of a further lane, none for a pair of the receiver.
bool check_lane_end(const std::byte* frame) {
  const LaneEnd end = get_lane_end(frame + frame_header_bytes);
  if (end.number > most_further_lanes) return false;
  if (end.exists()) return end.reads > 0;
  return end.reads == 0 && !end.joined && (end.psn != 0) == (end.number != 0);
}

// About a rail that there may be.
bool check_handover(const std::byte* frame) {
  std::uint64_t word;
  std::memcpy(&word, frame + frame_header_bytes, sizeof word);
  const HandoverMessage message = get_handover(frame + frame_header_bytes);
  using Kind = HandoverMessage::Kind;
  return message.kind >= Kind::ask && message.kind <= Kind::over && message.rail < most_rails &&
         (word >> 16 & 0xffff) == 0;
}

// One or more sections that fill the frame exactly; the last one need not be padded.
bool check_sections(const std::byte* frame, std::size_t size) {
  std::size_t at = frame_header_bytes;
  if (at == size) return false;
  while (at < size) {
    if (size - at < section_header_bytes) return false;
    const SectionHeader section = get_section_header(frame + at);
    at += section_header_bytes;
    if (section.bytes > size - at || !check_messages(frame + at, section.bytes, true)) return false;
    if (section.bytes == size - at) return true;
    const std::size_t padded = (std::size_t{section.bytes} + 7) & ~std::size_t{7};
    if (padded >= size - at) return false;  // padding, but no section after it
    at += padded;
  }
  return true;
}

}  // namespace

bool check_messages(const std::byte* messages, std::size_t size, bool numbered) {
  std::size_t at = 0;
  if (at == size) return false;  // there must be at least one
  while (at < size) {
    if (size - at < message_header_bytes) return false;
    const MessageHeader message = get_message_header(messages + at);
    std::uint64_t word;
    std::memcpy(&word, messages + at, sizeof word);
    if (word >> 40 != 0 && !(numbered && at == 0)) return false;
    if (message.length_bytes > size - at - message_header_bytes) return false;
    // The last message need not be padded.
    const std::size_t padded = message_bytes(message.length_bytes);
    const std::size_t exact = message_header_bytes + message.length_bytes;
    if (size - at == exact) return true;
    if (padded > size - at) return false;
    at += padded;
  }
  return true;
}

bool check_special_frame(FrameKind kind, const std::byte* frame, std::size_t size) {
  switch (kind) {
    case FrameKind::messages: return false;
    case FrameKind::repeated:
      return check_messages(frame + frame_header_bytes, size - frame_header_bytes, true);
    case FrameKind::relayed: return check_sections(frame, size);
    case FrameKind::credits:
    case FrameKind::goodbye:
    case FrameKind::recall:
    case FrameKind::returned:
    case FrameKind::trains:
    case FrameKind::part:
    case FrameKind::stay: return size == frame_header_bytes;
    case FrameKind::lane_end: return size == lane_frame_bytes && check_lane_end(frame);
    case FrameKind::handover: return size == handover_frame_bytes && check_handover(frame);
  }
  return false;
}

}  // namespace weir::wire
