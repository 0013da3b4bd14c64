// Numbers of frames, modulo 2^24: they travel in the three spare bytes of a message's header.
//
// Two numbers compare right as long as they are less than half of that apart, so a window is far
// smaller.
//
// Pure.
#pragma once

#include <cstdint>

namespace weir {

inline constexpr std::uint32_t sequence_mask = (1u << 24u) - 1;
inline constexpr std::uint32_t sequence_half = 1u << 23u;

constexpr std::uint32_t next_number(std::uint32_t number) { return (number + 1) & sequence_mask; }

// How far `number` is ahead of `of`; sequence_half or more: it is behind.
constexpr std::uint32_t ahead(std::uint32_t number, std::uint32_t of) {
  return (number - of) & sequence_mask;
}

}  // namespace weir
