// How a large message is divided among the rails: so that all of them are through at the same time.
// A rail has bytes of earlier messages to move first, and moves so many bytes a second. One that
// would get less than is worth while gets nothing; of equal ones, the first is kept.
//
// Rails that are nearly equal, within a quarter of the fastest, are pulled together. Where the ends
// of two parts are noticed at the same time, because the process had no processor before, any
// division confirms itself: an accident would last. (A rail that is truly slower by a quarter costs
// a message 9 % more so.)
//
// Pure; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/link_news.h"

namespace weir {

struct RailLoad {
  double rate = 0;                  // bytes a second; 0: the rail must not be used
  std::uint64_t waiting_bytes = 0;  // given to it before, and not there yet
};
using RailLoads = std::array<RailLoad, most_rails>;
using RailParts = std::array<std::uint64_t, most_rails>;  // bytes for each rail

// Takes those half way to their mean.
inline void pull_together(RailLoads& loads) {
  double best = 0;
  for (const RailLoad& load : loads) best = std::max(best, load.rate);
  const auto is_near = [least = best * 3 / 4](const RailLoad& load) {
    return load.rate > 0 && load.rate >= least;
  };
  double sum = 0;
  std::size_t near = 0;
  for (const RailLoad& load : loads) {
    if (!is_near(load)) continue;
    sum += load.rate;
    ++near;
  }
  for (RailLoad& load : loads) {
    if (is_near(load)) load.rate = (load.rate + sum / static_cast<double>(near)) / 2;
  }
}

// Parts of at least `least_bytes`, all except one a multiple of `grain_bytes`. With no rail to be
// used, the first one gets all.
inline RailParts divide(const RailLoads& loads, std::uint64_t length_bytes,
                        std::uint64_t least_bytes, std::uint64_t grain_bytes = 4096) {
  RailLoads left = loads;
  pull_together(left);
  std::array<double, most_rails> parts{};
  for (;;) {
    double rates = 0;
    auto bytes = static_cast<double>(length_bytes);
    std::size_t used = 0;
    for (const RailLoad& load : left) {
      if (load.rate <= 0) continue;
      rates += load.rate;
      bytes += static_cast<double>(load.waiting_bytes);
      ++used;
    }
    RailParts whole{};
    if (used == 0) {
      whole[0] = length_bytes;
      return whole;
    }
    std::size_t smallest = most_rails;
    std::size_t largest = most_rails;
    for (std::size_t i = 0; i < most_rails; ++i) {
      if (left[i].rate <= 0) continue;
      parts[i] = left[i].rate * (bytes / rates) - static_cast<double>(left[i].waiting_bytes);
      if (smallest == most_rails || parts[i] <= parts[smallest]) smallest = i;
      if (largest == most_rails || parts[i] > parts[largest]) largest = i;
    }
    if (used > 1 && parts[smallest] < static_cast<double>(least_bytes)) {
      left[smallest].rate = 0;
      continue;
    }
    std::uint64_t given = 0;
    for (std::size_t i = 0; i < most_rails; ++i) {
      if (left[i].rate <= 0 || i == largest) continue;
      whole[i] = static_cast<std::uint64_t>(parts[i]) / grain_bytes * grain_bytes;
      given += whole[i];
    }
    whole[largest] = length_bytes - given;
    return whole;
  }
}

}  // namespace weir
