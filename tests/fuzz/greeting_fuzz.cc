// Any bytes as a card, a hello and a refusal: what is accepted says the same when encoded again,
// and keeps the promises of the header.
#include "tests/fuzz/require.h"
#include "transport/wire/hello.h"

namespace weir::fuzz {
namespace {

// The fields of a kind end at `used`; what follows is for later versions.
template <typename Encoded>
void same(const Encoded& encoded, const Exact& input, std::size_t used) {
  REQUIRE(input.size() >= encoded.size());
  REQUIRE(std::memcmp(encoded.data(), input.data(), used) == 0);
}

void check(const Exact& input) {
  const std::span bytes(input.data(), input.size());
  if (const auto card = wire::decode_card(bytes)) {
    REQUIRE(card->port != 0 && card->protocol_min <= card->protocol_max);
    const auto encoded = wire::encode(*card);
    REQUIRE(std::memcmp(encoded.data(), input.data(), wire::least_card_bytes) == 0);
    const auto again = wire::decode_card(encoded);
    REQUIRE(again && wire::encode(*again) == encoded);
    const std::uint8_t version = wire::common_version(card->protocol_min, card->protocol_max);
    REQUIRE(version == 0 || (version >= card->protocol_min && version <= card->protocol_max));
  }
  if (const auto hello = wire::decode_hello(bytes)) {
    REQUIRE(hello->protocol_min <= hello->protocol_max);
    same(wire::encode(*hello), input, 29);
  }
  if (const auto reject = wire::decode_reject(bytes)) {
    REQUIRE(*reject >= wire::Reject::crossed && *reject <= wire::Reject::over);
    same(wire::encode(*reject), input, 5);
  }
}

}  // namespace
}  // namespace weir::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weir::fuzz::check(weir::fuzz::Exact(data, size));
  return 0;
}
