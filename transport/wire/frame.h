// The bytes of one SEND: a frame header, then, in a frame of messages, one or more messages.
// PROTOCOL.md §2 has the picture. All integers are little-endian. Bytes from a peer are untrusted:
// `check_frame` checks the whole frame before anything of it is used.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/link_news.h"

namespace weir::wire {

enum class FrameKind : std::uint8_t {
  messages = 1,  // carries messages; costs the sender one eager credit
  credits = 2,   // only returns credits; costs one control credit
  goodbye = 3,   // the sender leaves and will send no more; costs nothing, sent once
  recall = 4,    // asks for eager credits back, all except `credits`; costs one control credit
  returned = 5,  // gives `credits` eager credits back unused; costs one control credit
  lane_end = 6,  // the sender's end of a second lane, a LaneEnd; costs an eager credit
  relayed = 7,   // messages of processes of the sender's node, in sections; costs an eager credit
  repeated = 8,  // messages that a relay was asked to send, and may have; costs an eager credit
  part = 9,      // asks whether the idle connection may end; costs nothing, one at a time
  stay = 10,     // answers that it may not (a goodbye: it may); costs nothing
  handover = 11,  // about the frames of a rail that broke, a HandoverMessage; costs nothing
  trains = 12,    // whether trains may come (`credits`: 1 or 0); costs one control credit
};

// Whether a frame of that kind costs no credit, because there are few at a time.
inline bool is_free(FrameKind kind) {
  return kind == FrameKind::goodbye || kind == FrameKind::part || kind == FrameKind::stay ||
         kind == FrameKind::handover;
}

// Whether `credits` in the header of such a frame is no grant.
inline bool carries_no_grant(FrameKind kind) {
  return kind == FrameKind::recall || kind == FrameKind::returned || kind == FrameKind::trains;
}

struct FrameHeader {
  FrameKind kind = FrameKind::messages;
  bool starved = false;              // the sender has messages waiting for eager credits
  std::uint8_t control_credits = 0;  // control credits returned to the receiver of this frame
  std::uint16_t credits = 0;         // eager credits granted to that receiver; not in every kind
  std::uint32_t sequence = 0;        // frames sent on this lane before, modulo 2^32
};

// Packet sequence numbers have 24 bits. [IBTA 9.2]
inline constexpr std::uint32_t psn_mask = 0xffffff;

// One end of a lane for fetches: its queue pair. PROTOCOL.md §5.
struct LaneEnd {
  std::uint32_t qp_number = 0;  // 0: the sender has none
  // Of the first packet that the sender will send. Without an end: the pair of the receiver that
  // has lost its other end, or gets none; 0: there will be none.
  std::uint32_t psn = 0;
  std::uint8_t reads = 0;       // reads that the sender answers at a time
  bool joined = false;          // this end is connected to the end that the receiver told of
  std::uint8_t number = 0;      // 0: the first lane; up to most_further_lanes: a further one

  bool exists() const { return qp_number != 0; }
};
inline constexpr std::uint8_t most_further_lanes = 8;

struct MessageHeader {
  std::uint32_t length_bytes = 0;
  std::uint8_t tag = 0;
};

// Precedes the messages of one process in a relayed frame. PROTOCOL.md §6.
struct SectionHeader {
  std::uint32_t rank = 0;   // owner of the messages; its job is the sender's
  std::uint32_t bytes = 0;  // of the messages, without the padding before the next section
};

inline constexpr std::size_t frame_header_bytes = 8;
inline constexpr std::size_t section_header_bytes = 8;
inline constexpr std::size_t message_header_bytes = 8;
inline constexpr std::size_t lane_frame_bytes = frame_header_bytes + 8;
inline constexpr std::size_t handover_frame_bytes = frame_header_bytes + 16;

// Bytes before the payload of a frame's first message.
inline constexpr std::size_t first_payload_offset = frame_header_bytes + message_header_bytes;

// Bytes that a message of `length_bytes` takes in a frame: header, payload, padding to 8.
constexpr std::size_t message_bytes(std::size_t length_bytes) {
  return message_header_bytes + ((length_bytes + 7) & ~std::size_t{7});
}

// Messages start on multiples of 8: the place for the next one after `frame_bytes` of a frame.
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
  const std::uint64_t word = end.qp_number | std::uint64_t{end.psn & psn_mask} << 24 |
                             std::uint64_t{end.reads} << 48 | std::uint64_t{end.joined} << 56 |
                             std::uint64_t{end.number} << 57;
  std::memcpy(at, &word, sizeof word);
}

inline void put(std::byte* at, const HandoverMessage& message) {
  const std::uint64_t words[] = {static_cast<std::uint64_t>(message.kind) |
                                     std::uint64_t{message.rail} << 8 |
                                     std::uint64_t{message.received} << 32,
                                 message.exchange};
  std::memcpy(at, words, sizeof words);
}

inline void put(std::byte* at, const SectionHeader& header) {
  const std::uint64_t word = header.rank | std::uint64_t{header.bytes} << 32;
  std::memcpy(at, &word, sizeof word);
}

inline SectionHeader get_section_header(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
}

// A section that a relay sends, or was asked to send, has a number: how many sections its origin
// gave relays for the receiver before, modulo 2^24. It is in the first message header.
inline constexpr std::uint32_t relay_sequence_mask = 0xffffff;

inline void put_relay_sequence(std::byte* first_message, std::uint32_t sequence) {
  std::uint64_t word;
  std::memcpy(&word, first_message, sizeof word);
  word = (word & 0xff'ffff'ffffull) | std::uint64_t{sequence & relay_sequence_mask} << 40;
  std::memcpy(first_message, &word, sizeof word);
}

inline std::uint32_t get_relay_sequence(const std::byte* first_message) {
  std::uint64_t word;
  std::memcpy(&word, first_message, sizeof word);
  return static_cast<std::uint32_t>(word >> 40);
}

inline LaneEnd get_lane_end(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return {static_cast<std::uint32_t>(word & 0xffffff),
          static_cast<std::uint32_t>(word >> 24 & 0xffffff), static_cast<std::uint8_t>(word >> 48),
          (word >> 56 & 1) != 0, static_cast<std::uint8_t>(word >> 57)};
}

inline HandoverMessage get_handover(const std::byte* at) {
  std::uint64_t words[2];
  std::memcpy(words, at, sizeof words);
  return {static_cast<HandoverMessage::Kind>(words[0] & 0xff),
          static_cast<std::uint8_t>(words[0] >> 8), static_cast<std::uint32_t>(words[0] >> 32),
          words[1]};
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

// Whether the `size` bytes at `messages` are one or more messages that fill them exactly. If
// `numbered`, the first message has a number.
bool check_messages(const std::byte* messages, std::size_t size, bool numbered);

// The same as `check_frame`, for frames of another kind than `messages`.
[[gnu::noinline]] bool check_special_frame(FrameKind kind, const std::byte* frame, std::size_t size);

// Whether the `size` bytes at `frame` are a well-formed frame: known kind, messages that fill it
// exactly, zero in every unused byte of the headers. Reads nothing beyond the frame. If so,
// `header` is the frame's.
inline bool check_frame(const std::byte* frame, std::size_t size, FrameHeader& header) {
  if (size < frame_header_bytes) return false;
  header = get_frame_header(frame);
  if (header.kind != FrameKind::messages) [[unlikely]]
    return check_special_frame(header.kind, frame, size);
  return check_messages(frame + frame_header_bytes, size - frame_header_bytes, false);
}
inline bool check_frame(const std::byte* frame, std::size_t size) {
  FrameHeader header;
  return check_frame(frame, size, header);
}

// Calls `on_message(payload, length_bytes, tag, last)` for each message in checked bytes.
template <typename F>
void walk_messages(const std::byte* messages, std::size_t size, F&& on_message) {
  std::size_t at = 0;
  while (at < size) {
    const MessageHeader header = get_message_header(messages + at);
    const std::byte* payload = messages + at + message_header_bytes;
    at += message_bytes(header.length_bytes);
    on_message(payload, header.length_bytes, header.tag, at >= size);
  }
}

// The same for each message of a checked frame of kind `messages` or `repeated`.
template <typename F>
void for_each_message(const std::byte* frame, std::size_t size, F&& on_message) {
  walk_messages(frame + frame_header_bytes, size - frame_header_bytes, on_message);
}

// Calls `on_section(rank, messages, bytes)` for each section of a checked frame of kind `relayed`.
template <typename F>
void for_each_section(const std::byte* frame, std::size_t size, F&& on_section) {
  std::size_t at = frame_header_bytes;
  while (at < size) {
    const SectionHeader header = get_section_header(frame + at);
    const std::byte* messages = frame + at + section_header_bytes;
    at += section_header_bytes + ((std::size_t{header.bytes} + 7) & ~std::size_t{7});
    on_section(header.rank, messages, header.bytes);
  }
}

}  // namespace weir::wire
