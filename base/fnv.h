// FNV-1a of bytes or of words. It tells what is half written or of another layout; it keeps nobody
// from writing something that has the same hash.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

namespace weir {

template <std::unsigned_integral T>
constexpr std::uint64_t fnv(std::span<const T> of) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const T each : of) hash = (hash ^ each) * 0x100000001b3ull;
  return hash;
}

}  // namespace weir
