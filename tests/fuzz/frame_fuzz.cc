// Any bytes as a frame, and as cars of trains. What check_frame accepts, for_each_message must take
// apart without leaving it, and putting the parts together again must give the same frame.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/fuzz/require.h"
#include "transport/lane/assembly.h"
#include "transport/wire/frame.h"

namespace weir::fuzz {
namespace {

// The same bytes as cars of one peer: whole messages lie in their memory, and all of it goes back.
void put_together(const std::byte* frame, std::size_t size) {
  constexpr std::uint32_t usual = 64, most = 4096, room = 8;
  Assembly assembly(usual, most, room);
  std::size_t at = 0;
  while (at < size) {
    const std::size_t bytes = std::min(std::to_integer<std::size_t>(frame[at]), size - at);
    Assembly::Whole whole;
    const Exact car(reinterpret_cast<const std::uint8_t*>(frame + at), bytes);
    if (assembly.take(at % 2, car.data(), car.size(), whole) == Assembly::Took::whole) {
      REQUIRE(whole.length_bytes <= most && whole.lead_bytes <= whole.length_bytes);
      std::memset(whole.bytes - room, 7, room + whole.length_bytes);
      assembly.give_back(whole);
    }
    at += bytes + 1;
  }
  assembly.forget(0);
  assembly.forget(1);
  REQUIRE(assembly.bytes() == 0);
}

void check(const std::byte* frame, std::size_t size) {
  if (!wire::check_frame(frame, size)) return;
  REQUIRE(size >= wire::frame_header_bytes);
  const wire::FrameHeader header = wire::get_frame_header(frame);
  std::vector<std::byte> again(wire::frame_header_bytes);
  wire::put(again.data(), header);
  if (header.kind == wire::FrameKind::lane_end) {
    const wire::LaneEnd end = wire::get_lane_end(frame + wire::frame_header_bytes);
    REQUIRE(end.number <= wire::most_further_lanes);
    REQUIRE(end.qp_number != 0 ? end.reads > 0 : end.reads == 0 && !end.joined);
    REQUIRE(end.qp_number != 0 || (end.psn != 0) == (end.number != 0));
    again.resize(wire::lane_frame_bytes);
    wire::put(&again[wire::frame_header_bytes], end);
  } else if (header.kind == wire::FrameKind::handover) {
    const HandoverMessage message = wire::get_handover(frame + wire::frame_header_bytes);
    REQUIRE(message.rail < most_rails);
    again.resize(wire::handover_frame_bytes);
    wire::put(&again[wire::frame_header_bytes], message);
  } else if (header.kind == wire::FrameKind::relayed) {
    std::size_t sections = 0;
    wire::for_each_section(
        frame, size, [&](std::uint32_t rank, const std::byte* messages, std::size_t bytes) {
          ++sections;
          const auto start = static_cast<std::size_t>(messages - frame);
          REQUIRE(start % 8 == 0 && start <= size && bytes > 0 && bytes <= size - start);
          again.insert(again.end(), frame + again.size(), frame + start);
          REQUIRE(again.size() == start);
          wire::put(&again[start - wire::section_header_bytes],
                    wire::SectionHeader{rank, static_cast<std::uint32_t>(bytes)});
          again.insert(again.end(), messages, messages + bytes);
          std::size_t count = 0;
          wire::walk_messages(
              messages, bytes,
              [&](const std::byte* payload, std::uint32_t length, std::uint8_t, bool) {
                ++count;
                const auto at = static_cast<std::size_t>(payload - messages);
                REQUIRE(at <= bytes && length <= bytes - at);
              });
          REQUIRE(count > 0);
        });
    REQUIRE(sections > 0);
  } else if (header.kind != wire::FrameKind::messages && header.kind != wire::FrameKind::repeated) {
    const bool counts =
        (header.kind >= wire::FrameKind::credits && header.kind <= wire::FrameKind::returned) ||
        header.kind == wire::FrameKind::trains;
    REQUIRE(counts || wire::is_free(header.kind));
    REQUIRE(size == wire::frame_header_bytes);
  } else {
    bool ended = false;
    wire::for_each_message(
        frame, size,
        [&](const std::byte* payload, std::uint32_t length, std::uint8_t tag, bool last) {
          REQUIRE(!ended);
          ended = last;
          const auto start = static_cast<std::size_t>(payload - frame);
          REQUIRE(start % 8 == 0 && start <= size && length <= size - start);
          // The bytes between two messages may be anything: they are copied from the frame.
          again.insert(again.end(), frame + again.size(), frame + start);
          REQUIRE(again.size() == start);
          const bool numbered = start == wire::first_payload_offset;
          const std::uint32_t number =
              numbered ? wire::get_relay_sequence(frame + wire::frame_header_bytes) : 0;
          REQUIRE(number == 0 || header.kind == wire::FrameKind::repeated);
          wire::put(&again[start - wire::message_header_bytes], wire::MessageHeader{length, tag});
          wire::put_relay_sequence(&again[start - wire::message_header_bytes], number);
          again.insert(again.end(), payload, payload + length);
        });
    REQUIRE(ended);
    REQUIRE(size - again.size() < 8);
    again.insert(again.end(), frame + again.size(), frame + size);
  }
  REQUIRE(again.size() == size && std::memcmp(again.data(), frame, size) == 0);
}

}  // namespace
}  // namespace weir::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const weir::fuzz::Exact input(data, size);
  weir::fuzz::check(input.data(), input.size());
  weir::fuzz::put_together(input.data(), input.size());
  return 0;
}
