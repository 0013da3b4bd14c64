#include "base/ring.h"

#include <gtest/gtest.h>

#include <deque>

#include "tools/sim/random.h"

namespace weir {
namespace {

TEST(Ring, RoundsItsCapacityUp) {
  Ring<int> ring(5);
  for (int i = 0; i < 8; ++i) {
    EXPECT_FALSE(ring.full());
    ring.push(i);
  }
  EXPECT_TRUE(ring.full());
  EXPECT_EQ(ring.size(), 8u);
}

TEST(Ring, OfNothingHoldsOne) {
  Ring<int> ring(0);
  EXPECT_TRUE(ring.empty());
  ring.push(7);
  EXPECT_TRUE(ring.full());
  EXPECT_EQ(ring.front(), 7);
  EXPECT_EQ(ring.pop(), 7);
  EXPECT_TRUE(ring.empty());
}

TEST(Ring, KeepsTheOrderOverManyTurns) {
  sim::Random random(1);
  Ring<std::uint64_t> ring(16);
  std::deque<std::uint64_t> model;
  for (int step = 0; step < 100000; ++step) {
    if (!ring.full() && (ring.empty() || random.chance(500))) {
      const std::uint64_t value = random.next();
      ring.push(value);
      model.push_back(value);
    } else {
      ASSERT_EQ(ring.front(), model.front());
      ASSERT_EQ(ring.pop(), model.front());
      model.pop_front();
    }
    ASSERT_EQ(ring.size(), model.size());
  }
}

}  // namespace
}  // namespace weir
