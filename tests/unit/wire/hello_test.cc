// Card, hello and refusal: round trips, and bytes that are none of them.
#include "transport/wire/hello.h"

#include <gtest/gtest.h>

#include <vector>

#include "tools/sim/random.h"
#include "transport/wire/frame.h"

namespace weir::wire {
namespace {

// A copy that is exactly as long as told.
template <typename Array>
std::vector<std::byte> first(const Array& bytes, std::size_t size) {
  std::vector<std::byte> out(bytes.begin(), bytes.end());
  out.resize(size);
  out.shrink_to_fit();
  return out;
}

TEST(Card, SurvivesTheRoundTrip) {
  Card card{.protocol_min = 1, .protocol_max = 3, .port = 0xabcd};
  card.link_layer = LinkLayer::infiniband;
  card.network_bits = 120;
  card.subnet_prefix = {0xfe, 0x80, 1, 2, 3, 4, 5, 6};
  for (std::size_t i = 0; i < 16; ++i) card.address[i] = static_cast<std::uint8_t>(i * 7);
  card.key = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11, 12, 13, 14, 15, 16};
  const auto back = decode_card(encode(card));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->protocol_min, card.protocol_min);
  EXPECT_EQ(back->protocol_max, card.protocol_max);
  EXPECT_EQ(back->port, card.port);
  EXPECT_EQ(back->address, card.address);
  EXPECT_EQ(back->key, card.key);
  EXPECT_EQ(back->link_layer, card.link_layer);
  EXPECT_EQ(back->network_bits, card.network_bits);
  EXPECT_EQ(back->subnet_prefix, card.subnet_prefix);
}

TEST(Card, OfAnEarlierVersionSaysNothingOfTheFabric) {
  const auto bytes = encode(Card{.port = 1, .link_layer = LinkLayer::ethernet, .network_bits = 64});
  for (std::size_t size = least_card_bytes; size < card_bytes; ++size) {
    const auto card = decode_card(first(bytes, size));
    ASSERT_TRUE(card) << size;
    EXPECT_EQ(card->link_layer, LinkLayer::unknown);
    EXPECT_EQ(card->network_bits, 0);
  }
}

TEST(Card, OfAFabricThatWeDoNotKnowIsOne) {
  auto bytes = encode(Card{.port = 1, .link_layer = LinkLayer::ethernet, .network_bits = 64});
  bytes[41] = std::byte{200};
  EXPECT_EQ(decode_card(bytes)->network_bits, 128);
  bytes[40] = std::byte{9};
  EXPECT_EQ(decode_card(bytes)->link_layer, LinkLayer::unknown);
}

TEST(Card, RefusesShortForeignAndImpossible) {
  const auto bytes = encode(Card{.port = 1});
  for (std::size_t size = 0; size < least_card_bytes; ++size) {
    EXPECT_FALSE(decode_card(first(bytes, size))) << size;
  }
  EXPECT_TRUE(decode_card(first(bytes, card_bytes + 20)));
  EXPECT_FALSE(decode_card(encode(Card{.port = 0})));
  EXPECT_FALSE(decode_card(encode(Card{.protocol_min = 3, .protocol_max = 2, .port = 1})));
  auto foreign = bytes;
  foreign[0] ^= std::byte{1};
  EXPECT_FALSE(decode_card(foreign));
}

TEST(Hello, SurvivesTheRoundTrip) {
  const Hello hello{.protocol_min = 1,
                    .protocol_max = 2,
                    .from = {0xdeadbeef, 0x01020304},
                    .to = {5, 6},
                    .buffer_bytes = 65536,
                    .credits = 0xfffe,
                    .control_credits = 250,
                    .fetches = 131,
                    .key = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
                    .attempt = 0xfedcba9876543210,
                    .wakes = Wakes::all};
  const auto back = decode_hello(encode(hello));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->protocol_min, hello.protocol_min);
  EXPECT_EQ(back->protocol_max, hello.protocol_max);
  EXPECT_EQ(back->from, hello.from);
  EXPECT_EQ(back->to, hello.to);
  EXPECT_EQ(back->buffer_bytes, hello.buffer_bytes);
  EXPECT_EQ(back->credits, hello.credits);
  EXPECT_EQ(back->wakes, hello.wakes);
  EXPECT_EQ(back->control_credits, hello.control_credits);
  EXPECT_EQ(back->fetches, hello.fetches);
  EXPECT_EQ(back->key, hello.key);
  EXPECT_EQ(back->attempt, hello.attempt);
  EXPECT_FALSE(back->resumes);
  EXPECT_EQ(back->received, 0u);
}

TEST(Hello, ThatResumesTellsWhatWasReceivedInsteadOfTheSizeOfABuffer) {
  Hello hello{.from = {1, 2}, .to = {1, 3}, .buffer_bytes = 8192};
  hello.resumes = true;
  hello.received = 0xfedcba98;
  const auto back = decode_hello(encode(hello));
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->resumes);
  EXPECT_EQ(back->received, hello.received);
  EXPECT_EQ(back->buffer_bytes, 0u);
}

TEST(Hello, FitsIntoTheSmallestPrivateData) { EXPECT_LE(hello_bytes, 56u); }

TEST(Hello, RefusesShortForeignAndImpossible) {
  const auto bytes = encode(Hello{});
  for (std::size_t size = 0; size < hello_bytes; ++size) {
    EXPECT_FALSE(decode_hello(first(bytes, size))) << size;
  }
  EXPECT_TRUE(decode_hello(first(bytes, 196)));  // the connection manager pads
  Hello inverted;
  inverted.protocol_min = 9;
  inverted.protocol_max = 8;
  EXPECT_FALSE(decode_hello(encode(inverted)));
  EXPECT_FALSE(decode_hello(first(encode(Card{.port = 1}), 64)));
}

TEST(Reject, SurvivesTheRoundTripAndRefusesOthers) {
  for (int value = 0; value < 256; ++value) {
    const auto reason = static_cast<Reject>(value);
    const auto back = decode_reject(encode(reason));
    if (value >= 1 && value <= 6) {
      ASSERT_TRUE(back);
      EXPECT_EQ(*back, reason);
    } else {
      EXPECT_FALSE(back) << value;
    }
  }
  for (std::size_t size = 0; size < reject_bytes; ++size) {
    EXPECT_FALSE(decode_reject(first(encode(Reject::crossed), size)));
  }
}

// Bytes with the right magic and anything behind it: what is taken is within its bounds, and is the
// same when it is told on.
TEST(Decoders, TakeOnlyWhatIsWithinItsBounds) {
  sim::Random random(9);
  const auto junk_behind = [&](const auto& good) {
    std::vector<std::byte> bytes(good.begin(), good.begin() + 4);
    bytes.resize(4 + random.below(64));
    for (std::size_t i = 4; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random.next());
    bytes.shrink_to_fit();
    return bytes;
  };
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    if (const auto card = decode_card(junk_behind(encode(Card{.port = 1})))) {
      ++taken;
      EXPECT_NE(card->port, 0);
      EXPECT_LE(card->protocol_min, card->protocol_max);
      EXPECT_LE(card->link_layer, LinkLayer::infiniband);
      EXPECT_LE(card->network_bits, 128);
      EXPECT_LE(card->further_lanes, most_further_lanes);
      EXPECT_EQ(encode(*decode_card(encode(*card))), encode(*card));
    }
    if (const auto hello = decode_hello(junk_behind(encode(Hello{})))) {
      ++taken;
      EXPECT_LE(hello->protocol_min, hello->protocol_max);
      EXPECT_LE(hello->wakes, Wakes::all);
      EXPECT_EQ(hello->resumes ? hello->buffer_bytes : hello->received, 0u);
      EXPECT_EQ(encode(*decode_hello(encode(*hello))), encode(*hello));
    }
    if (const auto reject = decode_reject(junk_behind(encode(Reject::crossed)))) {
      ++taken;
      EXPECT_GE(*reject, Reject::crossed);
      EXPECT_LE(*reject, Reject::over);
    }
  }
  EXPECT_GT(taken, 5000);
}

TEST(CommonVersion, IsTheHighestOfBothOrNone) {
  EXPECT_EQ(common_version(protocol_min, protocol_max), protocol_max);
  EXPECT_EQ(common_version(1, 200), protocol_max);
  EXPECT_EQ(common_version(static_cast<std::uint8_t>(protocol_max + 1), 200), 0);
  EXPECT_EQ(common_version(0, 0), 0);
}

}  // namespace
}  // namespace weir::wire
