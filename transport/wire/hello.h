// What two processes tell each other outside of SENDs: the card each publishes in the MPI modex,
// and the hello that travels as private data of a connection request or its answer.
// PROTOCOL.md §1. Untrusted: decoding checks lengths, magic and versions; the core checks the rest.
//
// Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/ids.h"

namespace weir::wire {

// Versions of the frame format this library speaks, both ends included.
inline constexpr std::uint8_t protocol_min = 4;
inline constexpr std::uint8_t protocol_max = 4;

// Random bytes that a process draws when it starts. Only readers of its card know them.
using Key = std::array<std::uint8_t, 16>;

// Some bits of the key, to tell two processes apart; 0 if the key is not known.
inline std::uint64_t first_word(const Key& key) {
  std::uint64_t word;
  static_assert(sizeof key >= sizeof word);
  std::memcpy(&word, key.data(), sizeof word);
  return word;
}

enum class LinkLayer : std::uint8_t { unknown = 0, ethernet = 1, infiniband = 2 };

// Where a process listens, and on which fabric. An IPv4 address is given as ::ffff:a.b.c.d.
struct Card {
  std::uint8_t protocol_min = wire::protocol_min;
  std::uint8_t protocol_max = wire::protocol_max;
  std::uint16_t port = 0;  // of the rdma_cm listener (RDMA_PS_TCP)
  std::array<std::uint8_t, 16> address{};
  Key key{};
  LinkLayer link_layer = LinkLayer::unknown;
  std::uint8_t network_bits = 0;                // of the address; 0: not known
  std::uint8_t further_lanes = 0;               // lanes for fetches that it joins besides the first
  std::array<std::uint8_t, 8> subnet_prefix{};  // of the InfiniBand subnet
};

// Which frames are to wake the event thread of a process that computes: those with messages that
// only its software can answer (SendSlot::wakes), or all.
enum class Wakes : std::uint8_t { none = 0, answers = 1, all = 2 };

// Private data of a connection request and of its acceptance (at most 56 bytes in a REQ).
struct Hello {
  std::uint8_t protocol_min = wire::protocol_min;
  std::uint8_t protocol_max = wire::protocol_max;
  PeerName from;
  PeerName to;                       // the intended process: a port can be given to another one
  std::uint32_t buffer_bytes = 0;    // size of one receive buffer of the sender of the hello
  std::uint16_t credits = 0;         // eager credits granted to the receiver of the hello
  std::uint8_t control_credits = 0;  // control credits granted to it
  std::uint8_t fetches = 16;         // reads and atomics of a queue pair that the sender answers
  Key key{};                         // of the asked process: in the request and its answer
  std::uint64_t attempt = 0;         // rises with each request of a process; the answer repeats it
  Wakes wakes = Wakes::none;  // which frames of the receiver of the hello are to be solicited
  // The session goes on whose connection broke. `buffer_bytes` was said when it began; instead the
  // hello says how many frames of this session, modulo 2^32, its sender has received.
  bool resumes = false;
  std::uint32_t received = 0;
};

// Private data of a rejection.
enum class Reject : std::uint8_t {
  crossed = 1,
  stranger = 2,
  version = 3,
  buffer = 4,
  closing = 5,
  over = 6
};

inline constexpr std::size_t card_bytes = 56;
inline constexpr std::size_t least_card_bytes = 40;  // the fabric came later
inline constexpr std::size_t hello_bytes = 56;
inline constexpr std::size_t reject_bytes = 8;

std::array<std::byte, card_bytes> encode(const Card& card);
std::array<std::byte, hello_bytes> encode(const Hello& hello);
std::array<std::byte, reject_bytes> encode(Reject reason);

// Nothing if the bytes are no card, hello, and so on. Longer input is fine: the CM pads private
// data, and a later version may add fields at the end.
std::optional<Card> decode_card(std::span<const std::byte> bytes);
std::optional<Hello> decode_hello(std::span<const std::byte> bytes);
std::optional<Reject> decode_reject(std::span<const std::byte> bytes);

// The highest version that both sides speak, or 0.
std::uint8_t common_version(std::uint8_t their_min, std::uint8_t their_max);

}  // namespace weir::wire
