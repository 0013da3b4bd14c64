// Random numbers that are the same on every machine for the same seed (splitmix64; the standard
// library's distributions are not). Good enough to pick test worlds, not for statistics.
//
// Single-threaded; a value type.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"

namespace weir::sim {

constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15ull); }

  // 0 … n-1; 0 for n = 0.
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }

  // low … high, both included.
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(below(std::uint64_t{high} - low + 1));
  }

  bool chance(std::uint32_t permille) { return permille > 0 && below(1000) < permille; }

  // 0 … most.
  Duration up_to(Duration most) {
    return {static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most.ns) + 1))};
  }

  // A stream of its own, for one part of the world: what one part draws does not move the others.
  Random fork(std::uint64_t name) const { return Random(mix(state_ ^ mix(name + 1))); }

 private:
  std::uint64_t state_;
};

// In place, any order alike.
template <typename T>
void shuffle(std::vector<T>& items, Random& random) {
  for (std::size_t i = items.size(); i-- > 1;) std::swap(items[i], items[random.below(i + 1)]);
}

}  // namespace weir::sim
