// What tests of orders share: a world explored as it is, and with each of its orders left out.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <set>
#include <string>

#include "tests/unit/order/atomics.h"

namespace weir {

// A part of a world, by its name there.
struct Named {
  std::size_t from, bytes;
  const char* name;
};

inline std::string to_text(const weak::Weakened& order) {
  constexpr std::array kinds{"load", "store", "exchange"};
  constexpr std::array halves{"acquire", "release", "seq_cst"};
  return std::string(kinds[static_cast<std::size_t>(order.kind)]) + " " +
         halves[static_cast<std::size_t>(order.half)];
}

// No run of this world goes wrong. Returns the orders without which one does, a line each, of the
// places that `World::names()` has: who leaves one of these out breaks something.
template <typename World>
std::string needed_orders(std::uint32_t kills = 0) {
  weak::Memory memory;
  const auto result = memory.explore<World>(kills);
  EXPECT_EQ(result.problem, "");
  EXPECT_GT(result.ends, 0u);
  std::printf("%llu runs, %llu ends\n", static_cast<unsigned long long>(result.runs),
              static_cast<unsigned long long>(result.ends));
  std::string needed;
  const std::set<weak::Weakened> orders = memory.orders();
  for (const Named& part : World::names()) {
    for (const weak::Weakened& order : orders) {
      const std::size_t at = memory.offset_of(order.place);
      if (at < part.from || at >= part.from + part.bytes) continue;
      const std::string line = std::string(part.name) + ": " + to_text(order) + "\n";
      if (needed.find(line) != std::string::npos) continue;
      if (!memory.explore<World>(kills, order).problem.empty()) needed += line;
    }
  }
  return needed;
}

}  // namespace weir
