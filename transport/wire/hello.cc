#include "transport/wire/hello.h"

#include <algorithm>
#include <cstring>

#include "transport/wire/frame.h"

namespace weir::wire {
namespace {

constexpr std::uint32_t card_magic = 0x44524357;    // "WCRD"
constexpr std::uint32_t hello_magic = 0x4f4c4857;   // "WHLO"
constexpr std::uint32_t reject_magic = 0x4a455257;  // "WREJ"

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool has_magic(std::span<const std::byte> bytes, std::size_t size, std::uint32_t magic) {
  return bytes.size() >= size && load<std::uint32_t>(bytes.data()) == magic;
}

}  // namespace

std::array<std::byte, card_bytes> encode(const Card& card) {
  std::array<std::byte, card_bytes> out{};
  store(&out[0], card_magic);
  store(&out[4], card.protocol_min);
  store(&out[5], card.protocol_max);
  store(&out[6], card.port);
  std::memcpy(&out[8], card.address.data(), card.address.size());
  std::memcpy(&out[24], card.key.data(), card.key.size());
  store(&out[40], static_cast<std::uint8_t>(card.link_layer));
  store(&out[41], card.network_bits);
  store(&out[42], card.further_lanes);
  std::memcpy(&out[48], card.subnet_prefix.data(), card.subnet_prefix.size());
  return out;
}

std::optional<Card> decode_card(std::span<const std::byte> bytes) {
  if (!has_magic(bytes, least_card_bytes, card_magic)) return std::nullopt;
  Card card;
  card.protocol_min = load<std::uint8_t>(&bytes[4]);
  card.protocol_max = load<std::uint8_t>(&bytes[5]);
  card.port = load<std::uint16_t>(&bytes[6]);
  std::memcpy(card.address.data(), &bytes[8], card.address.size());
  std::memcpy(card.key.data(), &bytes[24], card.key.size());
  if (card.port == 0 || card.protocol_min > card.protocol_max) return std::nullopt;
  if (bytes.size() < card_bytes) return card;
  card.further_lanes = std::min(load<std::uint8_t>(&bytes[42]), most_further_lanes);
  const auto layer = load<std::uint8_t>(&bytes[40]);
  if (layer > static_cast<std::uint8_t>(LinkLayer::infiniband)) return card;
  card.link_layer = static_cast<LinkLayer>(layer);
  card.network_bits = std::min(load<std::uint8_t>(&bytes[41]), std::uint8_t{128});
  std::memcpy(card.subnet_prefix.data(), &bytes[48], card.subnet_prefix.size());
  return card;
}

std::array<std::byte, hello_bytes> encode(const Hello& hello) {
  std::array<std::byte, hello_bytes> out{};
  store(&out[0], hello_magic);
  store(&out[4], hello.protocol_min);
  store(&out[5], hello.protocol_max);
  store(&out[6], hello.credits);
  store(&out[8], hello.from.job);
  store(&out[12], hello.from.rank);
  store(&out[16], hello.to.job);
  store(&out[20], hello.to.rank);
  store(&out[24], hello.resumes ? hello.received : hello.buffer_bytes);
  store(&out[28], hello.control_credits);
  store(&out[29], hello.fetches);
  store(&out[30], static_cast<std::uint8_t>(hello.resumes));
  store(&out[31], static_cast<std::uint8_t>(hello.wakes));
  std::memcpy(&out[32], hello.key.data(), hello.key.size());
  store(&out[48], hello.attempt);
  return out;
}

std::optional<Hello> decode_hello(std::span<const std::byte> bytes) {
  if (!has_magic(bytes, hello_bytes, hello_magic)) return std::nullopt;
  Hello hello;
  hello.protocol_min = load<std::uint8_t>(&bytes[4]);
  hello.protocol_max = load<std::uint8_t>(&bytes[5]);
  hello.credits = load<std::uint16_t>(&bytes[6]);
  hello.from = {load<std::uint32_t>(&bytes[8]), load<std::uint32_t>(&bytes[12])};
  hello.to = {load<std::uint32_t>(&bytes[16]), load<std::uint32_t>(&bytes[20])};
  hello.resumes = load<std::uint8_t>(&bytes[30]) != 0;
  hello.wakes = static_cast<Wakes>(
      std::min(load<std::uint8_t>(&bytes[31]), static_cast<std::uint8_t>(Wakes::all)));
  (hello.resumes ? hello.received : hello.buffer_bytes) = load<std::uint32_t>(&bytes[24]);
  hello.control_credits = load<std::uint8_t>(&bytes[28]);
  hello.fetches = load<std::uint8_t>(&bytes[29]);
  std::memcpy(hello.key.data(), &bytes[32], hello.key.size());
  hello.attempt = load<std::uint64_t>(&bytes[48]);
  if (hello.protocol_min > hello.protocol_max) return std::nullopt;
  return hello;
}

std::array<std::byte, reject_bytes> encode(Reject reason) {
  std::array<std::byte, reject_bytes> out{};
  store(&out[0], reject_magic);
  store(&out[4], static_cast<std::uint8_t>(reason));
  return out;
}

std::optional<Reject> decode_reject(std::span<const std::byte> bytes) {
  if (!has_magic(bytes, reject_bytes, reject_magic)) return std::nullopt;
  const auto value = load<std::uint8_t>(&bytes[4]);
  if (value < static_cast<std::uint8_t>(Reject::crossed) ||
      value > static_cast<std::uint8_t>(Reject::over)) {
    return std::nullopt;
  }
  return static_cast<Reject>(value);
}

std::uint8_t common_version(std::uint8_t their_min, std::uint8_t their_max) {
  const std::uint8_t high = std::min(their_max, protocol_max);
  const std::uint8_t low = std::max(their_min, protocol_min);
  return high >= low ? high : std::uint8_t{0};
}

}  // namespace weir::wire
