// The frame format: what is written is read again, and what nobody writes is refused.
#include "transport/wire/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "tools/sim/random.h"

namespace weir::wire {
namespace {

struct Message {
  std::vector<std::byte> payload;
  std::uint8_t tag;
};

// Exactly as long as the frame: a read past its end is found by the address sanitizer.
struct Bytes {
  explicit Bytes(const std::vector<std::byte>& from)
      : size(from.size()), data(new std::byte[from.size()]) {
    std::copy(from.begin(), from.end(), data.get());
  }
  std::size_t size;
  std::unique_ptr<std::byte[]> data;
};

std::vector<std::byte> frame_of(const std::vector<Message>& messages, bool pad_last,
                                FrameKind kind = FrameKind::messages) {
  std::vector<std::byte> frame(frame_header_bytes);
  put(frame.data(), FrameHeader{.kind = kind});
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto length = static_cast<std::uint32_t>(messages[i].payload.size());
    const std::size_t start = frame.size();
    const bool last = i + 1 == messages.size();
    frame.resize(start +
                 (last && !pad_last ? message_header_bytes + length : message_bytes(length)));
    put(&frame[start], MessageHeader{length, messages[i].tag});
    std::copy(messages[i].payload.begin(), messages[i].payload.end(),
              frame.begin() + static_cast<std::ptrdiff_t>(start + message_header_bytes));
  }
  return frame;
}

bool check(const std::vector<std::byte>& frame) {
  const Bytes exact(frame);
  return check_frame(exact.data.get(), exact.size);
}

Message message(std::size_t size, std::uint8_t tag = 1) {
  return {std::vector<std::byte>(size, std::byte{0x5a}), tag};
}

TEST(FrameHeader, SurvivesTheRoundTrip) {
  sim::Random random(3);
  for (int i = 0; i < 10000; ++i) {
    const FrameHeader out{.kind = static_cast<FrameKind>(random.between(1, 8)),
                          .starved = random.chance(500),
                          .control_credits = static_cast<std::uint8_t>(random.next()),
                          .credits = static_cast<std::uint16_t>(random.next()),
                          .sequence = static_cast<std::uint32_t>(random.next())};
    std::byte bytes[frame_header_bytes];
    put(bytes, out);
    const FrameHeader in = get_frame_header(bytes);
    EXPECT_EQ(in.kind, out.kind);
    EXPECT_EQ(in.starved, out.starved);
    EXPECT_EQ(in.control_credits, out.control_credits);
    EXPECT_EQ(in.credits, out.credits);
    EXPECT_EQ(in.sequence, out.sequence);
  }
}

TEST(FrameHeader, LooksOnTheWireAsProtocolMdSays) {
  std::byte bytes[frame_header_bytes];
  put(bytes, FrameHeader{FrameKind::credits, true, 0x11, 0x2233, 0x44556677});
  const std::uint8_t expected[] = {0x82, 0x11, 0x33, 0x22, 0x77, 0x66, 0x55, 0x44};
  EXPECT_EQ(std::memcmp(bytes, expected, sizeof expected), 0);
  put(bytes, MessageHeader{0x11223344, 0x55});
  const std::uint8_t message_expected[] = {0x44, 0x33, 0x22, 0x11, 0x55, 0, 0, 0};
  EXPECT_EQ(std::memcmp(bytes, message_expected, sizeof message_expected), 0);
}

TEST(Frame, EveryMessageIsFoundOnceAndInOrder) {
  sim::Random random(4);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Message> messages;
    const std::uint32_t count = random.between(1, 12);
    for (std::uint32_t i = 0; i < count; ++i) {
      Message made = message(random.between(0, 40), static_cast<std::uint8_t>(random.next()));
      for (std::byte& byte : made.payload) byte = static_cast<std::byte>(random.next());
      messages.push_back(made);
    }
    const std::vector<std::byte> frame = frame_of(messages, random.chance(500));
    ASSERT_TRUE(check(frame));
    const Bytes exact(frame);
    std::size_t seen = 0;
    for_each_message(
        exact.data.get(), exact.size,
        [&](const std::byte* payload, std::uint32_t length, std::uint8_t tag, bool last) {
          ASSERT_LT(seen, messages.size());
          EXPECT_EQ(length, messages[seen].payload.size());
          EXPECT_EQ(tag, messages[seen].tag);
          EXPECT_TRUE(std::equal(payload, payload + length, messages[seen].payload.begin()));
          ++seen;
          EXPECT_EQ(last, seen == messages.size());
        });
    EXPECT_EQ(seen, messages.size());
  }
}

TEST(Frame, ControlFramesAreAHeaderAndNoMore) {
  for (const FrameKind kind :
       {FrameKind::credits, FrameKind::goodbye, FrameKind::recall, FrameKind::returned}) {
    std::vector<std::byte> frame = frame_of({}, false, kind);
    EXPECT_TRUE(check(frame));
    frame.resize(frame.size() + 8);
    EXPECT_FALSE(check(frame));
  }
}

std::vector<std::byte> frame_of(const LaneEnd& end) {
  std::vector<std::byte> frame = frame_of({}, false, FrameKind::lane_end);
  frame.resize(lane_frame_bytes);
  put(&frame[frame_header_bytes], end);
  return frame;
}

TEST(Handover, ComesBackAsItWasAndNothingElseDoes) {
  const HandoverMessage out{HandoverMessage::Kind::confirm, 3, 0xfffffffe, 1ull << 40};
  std::vector<std::byte> frame = frame_of({}, false, FrameKind::handover);
  EXPECT_FALSE(check(frame));
  frame.resize(handover_frame_bytes);
  put(&frame[frame_header_bytes], out);
  ASSERT_TRUE(check(frame));
  const HandoverMessage in = get_handover(&frame[frame_header_bytes]);
  EXPECT_EQ(in.kind, out.kind);
  EXPECT_EQ(in.rail, out.rail);
  EXPECT_EQ(in.received, out.received);
  EXPECT_EQ(in.exchange, out.exchange);
  const std::pair<std::size_t, int> wrong[] = {{0, 0}, {0, 6}, {1, 4}, {2, 1}, {3, 1}};
  for (const auto& [at, value] : wrong) {
    std::vector<std::byte> bad = frame;
    bad[frame_header_bytes + at] = static_cast<std::byte>(value);
    EXPECT_FALSE(check(bad)) << at << " " << value;
  }
}

TEST(LaneEnd, SurvivesTheRoundTrip) {
  sim::Random random(6);
  for (int i = 0; i < 1000; ++i) {
    const LaneEnd out{.qp_number = random.between(1, 0xffffff),
                      .psn = random.between(0, 0xffffff),
                      .reads = static_cast<std::uint8_t>(random.between(1, 255)),
                      .joined = random.chance(500),
                      .number = static_cast<std::uint8_t>(random.between(0, 8))};
    const std::vector<std::byte> frame = frame_of(out);
    ASSERT_TRUE(check(frame));
    const LaneEnd in = get_lane_end(&frame[frame_header_bytes]);
    EXPECT_EQ(in.qp_number, out.qp_number);
    EXPECT_EQ(in.psn, out.psn);
    EXPECT_EQ(in.reads, out.reads);
    EXPECT_EQ(in.joined, out.joined);
    EXPECT_EQ(in.number, out.number);
  }
}

TEST(LaneEnd, LooksOnTheWireAsProtocolMdSays) {
  const std::vector<std::byte> frame =
      frame_of(LaneEnd{.qp_number = 0x112233, .psn = 0x445566, .reads = 0x77, .joined = true});
  const std::uint8_t expected[] = {0x33, 0x22, 0x11, 0x66, 0x55, 0x44, 0x77, 0x01};
  EXPECT_EQ(std::memcmp(&frame[frame_header_bytes], expected, sizeof expected), 0);
  const std::vector<std::byte> further =
      frame_of(LaneEnd{.qp_number = 0x112233, .reads = 1, .joined = true, .number = 5});
  EXPECT_EQ(further.back(), std::byte{0x0b});
}

TEST(LaneEnd, APacketNumberKeepsToItsBits) {
  const std::vector<std::byte> frame =
      frame_of(LaneEnd{.qp_number = 7, .psn = 0xff445566, .reads = 16});
  const LaneEnd in = get_lane_end(&frame[frame_header_bytes]);
  EXPECT_EQ(in.psn, 0x445566u);
  EXPECT_EQ(in.reads, 16);
}

TEST(LaneEnd, IsNoneAtAllOrAnswersReads) {
  EXPECT_TRUE(check(frame_of(LaneEnd{})));
  EXPECT_FALSE(check(frame_of(LaneEnd{.psn = 1})));
  EXPECT_FALSE(check(frame_of(LaneEnd{.joined = true})));
  EXPECT_FALSE(check(frame_of(LaneEnd{.qp_number = 5})));
  std::vector<std::byte> frame = frame_of(LaneEnd{.qp_number = 5, .reads = 1});
  EXPECT_TRUE(check(frame));
  frame.back() = std::byte{0x12};  // a ninth further lane
  EXPECT_FALSE(check(frame));
  frame.pop_back();
  EXPECT_FALSE(check(frame));
}

// None of a further lane is for one pair of the receiver, which tells old news from new.
TEST(LaneEnd, NoneOfAFurtherLaneNamesThePair) {
  EXPECT_TRUE(check(frame_of(LaneEnd{.psn = 7, .number = 1})));
  EXPECT_TRUE(check(frame_of(LaneEnd{.qp_number = 5, .reads = 1, .number = 8})));
  EXPECT_FALSE(check(frame_of(LaneEnd{.number = 1})));
  EXPECT_FALSE(check(frame_of(LaneEnd{.psn = 7, .reads = 1, .number = 1})));
  EXPECT_FALSE(check(frame_of(LaneEnd{.psn = 7, .joined = true, .number = 1})));
}

TEST(Frame, RefusesUnknownKinds) {
  for (int kind = 0; kind < 128; ++kind) {
    const std::vector<std::byte> frame =
        frame_of({message(8)}, false, static_cast<FrameKind>(kind));
    const bool messages = kind == static_cast<int>(FrameKind::messages) ||
                          kind == static_cast<int>(FrameKind::repeated);
    EXPECT_EQ(check(frame), messages) << kind;
  }
}

TEST(Frame, RefusesEveryTruncation) {
  const std::vector<std::byte> whole = frame_of({message(5), message(16), message(3)}, false);
  ASSERT_TRUE(check(whole));
  // Cut after a whole message, it is a shorter frame, and a good one.
  const std::set<std::size_t> good = {8 + 8 + 5, 8 + 16, 8 + 16 + 24, whole.size()};
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const std::vector<std::byte> cut(whole.begin(),
                                     whole.begin() + static_cast<std::ptrdiff_t>(size));
    if (size == 8 + 8 + 5) continue;  // an unpadded last message: also good
    EXPECT_EQ(check(cut), good.count(size) == 1) << size;
  }
}

TEST(Frame, RefusesWhatFollowsTheLastMessage) {
  for (std::size_t extra = 1; extra < 8; ++extra) {
    std::vector<std::byte> frame = frame_of({message(8)}, true);
    frame.resize(frame.size() + extra);
    EXPECT_FALSE(check(frame)) << extra;
  }
  std::vector<std::byte> half_padded = frame_of({message(1)}, false);
  half_padded.resize(half_padded.size() + 3);
  EXPECT_FALSE(check(half_padded));
}

TEST(Frame, RefusesLengthsThatLie) {
  for (const std::uint32_t length :
       {17u, 1000u, 0x7fffffffu, 0xfffffff0u, 0xfffffff8u, 0xffffffffu}) {
    std::vector<std::byte> frame = frame_of({message(16)}, false);
    put(&frame[frame_header_bytes], MessageHeader{length, 1});
    EXPECT_FALSE(check(frame)) << length;
  }
}

TEST(Frame, RefusesBitsThatNobodySets) {
  for (std::size_t at = 5; at < 8; ++at) {
    std::vector<std::byte> frame = frame_of({message(16)}, false);
    frame[frame_header_bytes + at] = std::byte{1};
    EXPECT_FALSE(check(frame)) << at;
  }
}

TEST(Frame, RefusesAFrameOfNoMessages) { EXPECT_FALSE(check(frame_of({}, false))); }

// A relayed frame: the messages of each process in a section, numbered.
std::vector<std::byte> relayed(const std::vector<std::vector<Message>>& sections) {
  std::vector<std::byte> frame = frame_of({}, false, FrameKind::relayed);
  std::uint32_t rank = 40;
  for (const std::vector<Message>& messages : sections) {
    frame.resize((frame.size() + 7) / 8 * 8);
    std::vector<std::byte> part = frame_of(messages, false);
    if (!messages.empty()) put_relay_sequence(&part[frame_header_bytes], 0xabcde0 + rank);
    put(part.data(), SectionHeader{rank++, static_cast<std::uint32_t>(part.size() - 8)});
    frame.insert(frame.end(), part.begin(), part.end());
  }
  return frame;
}

TEST(RelayedFrame, EverySectionIsFoundOnceAndInOrder) {
  const std::vector<std::byte> frame =
      relayed({{message(5)}, {message(16), message(3)}, {message(0)}});
  ASSERT_TRUE(check(frame));
  const Bytes exact(frame);
  std::vector<std::size_t> lengths;
  std::uint32_t sections = 0;
  for_each_section(exact.data.get(), exact.size,
                   [&](std::uint32_t rank, const std::byte* messages, std::size_t bytes) {
                     EXPECT_EQ(rank, 40 + sections++);
                     EXPECT_EQ(get_relay_sequence(messages), 0xabcde0 + rank);
                     walk_messages(
                         messages, bytes,
                         [&](const std::byte* payload, std::uint32_t length, std::uint8_t, bool) {
                           EXPECT_LE(payload + length, exact.data.get() + exact.size);
                           lengths.push_back(length);
                         });
                   });
  EXPECT_EQ(sections, 3u);
  EXPECT_EQ(lengths, (std::vector<std::size_t>{5, 16, 3, 0}));
}

TEST(RelayedFrame, LooksOnTheWireAsProtocolMdSays) {
  std::byte bytes[16] = {};
  put(bytes, SectionHeader{0x11223344, 0x55667788});
  put(bytes + 8, MessageHeader{0x01020304, 0x05});
  put_relay_sequence(bytes + 8, 0xff0a0b0c);
  const std::uint8_t expected[] = {0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55,
                                   0x04, 0x03, 0x02, 0x01, 0x05, 0x0c, 0x0b, 0x0a};
  EXPECT_EQ(std::memcmp(bytes, expected, sizeof expected), 0);
}

TEST(RelayedFrame, RefusesSectionsThatLie) {
  const std::vector<std::byte> good = relayed({{message(16)}, {message(8)}});
  ASSERT_TRUE(check(good));
  for (const std::uint32_t bytes : {0u, 7u, 23u, 25u, 1000u, 0xffffffffu, 0xfffffff8u}) {
    std::vector<std::byte> frame = good;
    put(&frame[8], SectionHeader{1, bytes});
    EXPECT_FALSE(check(frame)) << bytes;
  }
  EXPECT_FALSE(check(relayed({})));
  EXPECT_FALSE(check(relayed({{}})));
  std::vector<std::byte> frame = good;
  frame.resize(frame.size() + 8);
  EXPECT_FALSE(check(frame));
  frame = relayed({{message(5)}});
  ASSERT_TRUE(check(frame));
  frame.resize(frame.size() + 3);  // the last one is not padded
  EXPECT_FALSE(check(frame));
  for (std::size_t size = 0; size < good.size(); ++size) {
    const std::vector<std::byte> cut(good.begin(),
                                     good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(check(cut), size == 8 + 8 + 24) << size;  // after the first section
  }
}

TEST(RelayedFrame, OnlyTheFirstMessageIsNumbered) {
  std::vector<std::byte> frame = frame_of({message(8), message(8)}, false, FrameKind::repeated);
  put_relay_sequence(&frame[8], 7);
  EXPECT_TRUE(check(frame));
  put_relay_sequence(&frame[8 + 16], 7);
  EXPECT_FALSE(check(frame));
  std::vector<std::byte> plain = frame_of({message(8)}, false);
  put_relay_sequence(&plain[8], 7);
  EXPECT_FALSE(check(plain));
}

TEST(Frame, JunkIsReadWithinItsBounds) {
  sim::Random random(5);
  for (int round = 0; round < 100000; ++round) {
    std::vector<std::byte> junk(random.below(80));
    for (std::byte& byte : junk) {
      byte = random.chance(700) ? std::byte{0} : static_cast<std::byte>(random.below(40));
    }
    if (!junk.empty()) junk[0] = std::byte{1};
    const Bytes exact(junk);
    if (!check_frame(exact.data.get(), exact.size)) continue;
    int last_seen = 0;
    for_each_message(exact.data.get(), exact.size,
                     [&](const std::byte* payload, std::uint32_t length, std::uint8_t, bool last) {
                       ASSERT_LE(payload + length, exact.data.get() + exact.size);
                       last_seen += last ? 1 : 0;
                     });
    EXPECT_EQ(last_seen, 1);
  }
}

}  // namespace
}  // namespace weir::wire
