// W_current = min(2^nlimit * W_initial, W_max), limit = W_current / 2. [ARWS §3]
#include "srq/window_controller.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weir {
namespace {

TEST(WindowController, FollowsTheFormula) {
  for (const std::uint32_t initial : {1u, 2u, 7u, 8u, 32u}) {
    for (const std::uint32_t max : {8u, 100u, 512u, 4096u}) {
      if (initial > max) continue;
      WindowController window({initial, max});
      std::uint64_t formula = initial;
      for (int events = 0; events < 20; ++events) {
        EXPECT_EQ(window.window(), formula);
        EXPECT_EQ(window.limit(), window.window() / 2);
        const bool grew = window.grow(0);
        const std::uint64_t next = std::min<std::uint64_t>(formula * 2, max);
        EXPECT_EQ(grew, next > formula);
        formula = next;
      }
    }
  }
}

TEST(WindowController, TakesAnyConfiguration) {
  WindowController nothing({0, 0});
  EXPECT_EQ(nothing.window(), 1u);
  EXPECT_EQ(nothing.max(), 1u);
  EXPECT_FALSE(nothing.grow(0));
  WindowController inverted({100, 10});
  EXPECT_EQ(inverted.window(), 10u);
}

TEST(WindowController, RaisesToAFloorWithinTheMaximum) {
  WindowController window({8, 64});
  EXPECT_TRUE(window.raise_to(20));
  EXPECT_EQ(window.window(), 20u);
  EXPECT_FALSE(window.raise_to(10));
  EXPECT_TRUE(window.raise_to(1000));
  EXPECT_EQ(window.window(), 64u);
}

// The room is for peers that are there: without them demand takes W to the configured W_max only.
TEST(WindowController, GrowsByDemandAsFarAsThePeersThatAreThereNeed) {
  WindowController window({.initial = 32, .max = 64, .most = 4096});
  window.expect(1000);
  EXPECT_TRUE(window.grow(10));
  EXPECT_EQ(window.window(), 64u);
  EXPECT_FALSE(window.grow(10));
  EXPECT_TRUE(window.raise_to(100));
  EXPECT_FALSE(window.grow(10));
  EXPECT_EQ(window.window(), 100u);
  EXPECT_TRUE(window.grow(100));
  EXPECT_EQ(window.window(), 132u);
  EXPECT_FALSE(window.grow(100));
}

TEST(WindowController, StaysCappedForGood) {
  WindowController window({8, 64});
  window.raise_to(40);
  window.cap(30);
  EXPECT_EQ(window.window(), 30u);
  EXPECT_FALSE(window.grow(0));
  window.cap(50);  // more memory later does not help: the cap only falls
  EXPECT_EQ(window.max(), 30u);
  window.cap(0);
  EXPECT_EQ(window.window(), 1u);
}

TEST(WindowController, ManyPeersRaiseTheMaximumAsFarAsItMay) {
  WindowController window({.initial = 8, .max = 64, .most = 100});
  EXPECT_EQ(window.room(), 100u);
  window.expect(30);
  EXPECT_EQ(window.max(), 94u);
  window.expect(1000);
  EXPECT_EQ(window.max(), 100u);
  window.cap(70);
  window.expect(1000);
  EXPECT_EQ(window.max(), 70u);
}

TEST(WindowController, AnotherMaximumIsTakenAsFarAsTheQueueHasRoom) {
  WindowController window({.initial = 8, .max = 64});
  window.settle_room();
  window.raise_to(64);
  window.limit({.initial = 8, .max = 20});
  EXPECT_EQ(window.max(), 20u);
  EXPECT_EQ(window.max_by_demand(0), 20u);
  window.shrink_to(20);
  EXPECT_FALSE(window.grow(0));
  window.limit({.initial = 8, .max = 1000});
  EXPECT_EQ(window.max(), 64u);
  EXPECT_TRUE(window.grow(0));
  window.cap(50);  // that holds for later limits, too
  window.limit({.initial = 8, .max = 64});
  EXPECT_EQ(window.max(), 50u);
}

TEST(WindowController, AFixedMaximumStays) {
  WindowController window({.initial = 8, .max = 16});
  window.expect(1000);
  EXPECT_EQ(window.max(), 16u);
}

}  // namespace
}  // namespace weir
