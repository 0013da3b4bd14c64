// Where a process stands with one of its peers, for `weir top`: five words in the memory that the
// node's processes share.
//
// A value. Whoever reads it from another process's memory may find any numbers in it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/ids.h"

namespace weir {

struct PeerRow {
  // What the frames that are pending wait for.
  enum class Wait : std::uint8_t {
    nothing,     // nothing is pending
    connection,  // it is being made, ends or broke
    tokens,      // of the node
    credits,     // of the peer: it is slow to take what came
    queue,       // completions make room in the send queue
    turn,        // the next pump, so that messages share a frame; or a server of the node
  };
  static constexpr auto last_wait = Wait::turn;

  PeerName name;
  std::uint8_t state = 0;  // a PeerState
  Wait wait = Wait::nothing;
  std::uint32_t frames_sent = 0;  // in this connection, and those it takes up
  std::uint32_t frames_received = 0;
  std::uint32_t frames_pending = 0;  // not posted yet
  std::uint32_t requests_out = 0;    // posted, and no completion has told that they are over
  std::uint32_t credits = 0;         // frames that we may send
  std::uint32_t credits_out = 0;     // frames that the peer may send
  std::uint32_t reads_out = 0;       // chunks of gets, without chains
  std::uint32_t writes_out = 0;      // chunks of puts

  friend bool operator==(const PeerRow&, const PeerRow&) = default;

  using Words = std::array<std::uint64_t, 5>;
  Words pack() const {
    const auto two = [](std::uint64_t high, std::uint64_t low) { return high << 32 | low; };
    const auto half = [](std::uint32_t number) { return std::min(number, 0xffffu); };
    return {two(name.job, name.rank), two(frames_sent, frames_received),
            two(frames_pending, requests_out), two(reads_out, writes_out),
            std::uint64_t{state} << 40 | static_cast<std::uint64_t>(wait) << 32 |
                half(credits) << 16 | half(credits_out)};
  }
  static PeerRow unpack(const Words& words) {
    const auto high = [](std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); };
    const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
    const std::uint8_t wait = high(words[4]) & 0xff;
    return {.name = {high(words[0]), low(words[0])},
            .state = static_cast<std::uint8_t>(high(words[4]) >> 8),
            .wait = static_cast<Wait>(std::min(wait, static_cast<std::uint8_t>(last_wait))),
            .frames_sent = high(words[1]),
            .frames_received = low(words[1]),
            .frames_pending = high(words[2]),
            .requests_out = low(words[2]),
            .credits = low(words[4]) >> 16,
            .credits_out = low(words[4]) & 0xffff,
            .reads_out = high(words[3]),
            .writes_out = low(words[3])};
  }
};

}  // namespace weir
