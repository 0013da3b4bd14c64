// The bytes of one SEND: a frame header, then, in a frame of messages, one or more messages.
// PROTOCOL.md §2 has the picture. All integers little-endian. Bytes from a peer are untrusted:
// `check_frame` looks at everything once, before anything of the frame is used.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weir::wire {

enum class FrameKind : std::uint8_t {
  messages = 1,  // carries messages; costs the sender one eager credit
  credits = 2,   // only returns credits; costs one eager credit
  goodbye = 3,   // the sender leaves and will send no more; costs nothing, sent once
  recall = 4,    // asks for eager credits back, all but `credits`; costs one control credit
  returned = 5,  // gives `credits` eager credits back unused; costs one control credit
  lane_end = 6,  // the sender's end of a second lane, a LaneEnd; costs one control credit
};

struct FrameHeader {
  FrameKind kind = FrameKind::messages;
  bool starved = false;              // the sender has messages waiting for eager credits
  std::uint8_t control_credits = 0;  // control credits returned to the receiver of this frame
  std::uint16_t credits = 0;         // eager credits granted to it; see recall, returned
  std::uint32_t sequence = 0;        // frames sent on this lane before, modulo 2^32
};

// One end of a second lane, for chains of reads: its queue pair. PROTOCOL.md §5.
struct LaneEnd {
  std::uint32_t qp_number = 0;  // 0: the sender has none and will have none
  std::uint32_t psn = 0;        // of the first packet it will send
  std::uint8_t reads = 0;       // that it answers at a time
  bool joined = false;          // it is connected to the end that the receiver told of
};

struct MessageHeader {
  std::uint32_t length_bytes = 0;
  std::uint8_t tag = 0;
};

inline constexpr std::size_t frame_header_bytes = 8;
inline constexpr std::size_t message_header_bytes = 8;
inline constexpr std::size_t lane_frame_bytes = frame_header_bytes + 8;

// Bytes before the payload of a frame's first message.
inline constexpr std::size_t first_payload_offset = frame_header_bytes + message_header_bytes;

// Bytes that a message of `length_bytes` takes in a frame: header, payload, padding to 8.
constexpr std::size_t message_bytes(std::size_t length_bytes) {
  return message_header_bytes + ((length_bytes + 7) & ~std::size_t{7});
}

// Messages start on multiples of 8: where the next one goes after `frame_bytes` of a frame.
constexpr std::uint32_t next_message_offset(std::uint32_t frame_bytes) {
  return (frame_bytes + 7u) & ~7u;
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire format is little-endian");

inline constexpr std::uint8_t starved_bit = 0x80;

inline void put(std::byte* at, const FrameHeader& header) {
  const std::uint8_t first =
      static_cast<std::uint8_t>(header.kind) | (header.starved ? starved_bit : std::uint8_t{0});
  const std::uint64_t word = first | std::uint64_t{header.control_credits} << 8 |
                             std::uint64_t{header.credits} << 16 |
                             std::uint64_t{header.sequence} << 32;
  std::memcpy(at, &word, sizeof word);
}

inline void put(std::byte* at, const MessageHeader& header) {
  const std::uint64_t word = header.length_bytes | std::uint64_t{header.tag} << 32;
  std::memcpy(at, &word, sizeof word);
}

inline void put(std::byte* at, const LaneEnd& end) {
  const std::uint64_t word = end.qp_number | std::uint64_t{end.psn} << 24 |
                             std::uint64_t{end.reads} << 48 | std::uint64_t{end.joined} << 56;
  std::memcpy(at, &word, sizeof word);
}

inline LaneEnd get_lane_end(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return {static_cast<std::uint32_t>(word & 0xffffff),
          static_cast<std::uint32_t>(word >> 24 & 0xffffff), static_cast<std::uint8_t>(word >> 48),
          (word >> 56) != 0};
}

inline FrameHeader get_frame_header(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  const auto first = static_cast<std::uint8_t>(word);
  return {static_cast<FrameKind>(first & ~starved_bit), (first & starved_bit) != 0,
          static_cast<std::uint8_t>(word >> 8), static_cast<std::uint16_t>(word >> 16),
          static_cast<std::uint32_t>(word >> 32)};
}

inline MessageHeader get_message_header(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return {static_cast<std::uint32_t>(word), static_cast<std::uint8_t>(word >> 32)};
}

// Whether the `size` bytes at `frame` are a well-formed frame: known kind, messages that fill it
// exactly, zero in every unused byte of the headers. Reads nothing outside them.
bool check_frame(const std::byte* frame, std::size_t size);

// Calls `on_message(payload, length_bytes, tag, last)` for each message of a checked frame.
template <typename F>
void for_each_message(const std::byte* frame, std::size_t size, F&& on_message) {
  std::size_t at = frame_header_bytes;
  while (at < size) {
    const MessageHeader header = get_message_header(frame + at);
    const std::byte* payload = frame + at + message_header_bytes;
    at += message_bytes(header.length_bytes);
    on_message(payload, header.length_bytes, header.tag, at >= size);
  }
}

}  // namespace weir::wire
