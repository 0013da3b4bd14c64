#include "tools/sim/network/wheel.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace weir::sim::network {
namespace {

TEST(Wheel, RunsInOrderOfTimeThenOfLaneThenOfAdding) {
  Wheel<int, 2> wheel;
  wheel.at(5, 1, 4);
  wheel.at(5, 0, 2);
  wheel.at(100'000, 0, 5);  // beyond the horizon
  wheel.at(3, 1, 1);
  wheel.at(5, 0, 3);
  std::vector<int> seen;
  const auto note = [&](unsigned, std::span<const int> events) {
    seen.insert(seen.end(), events.begin(), events.end());
  };
  wheel.run_until(10, note);
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(wheel.now(), 10);
  EXPECT_FALSE(wheel.empty());
  // Added later, for the same time as one that has waited aside.
  wheel.run_until(99'000, note);
  wheel.at(100'000, 0, 6);
  wheel.run_until(100'001, note);
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.handled(), 6u);
}

TEST(Wheel, ManyEventsOfATickAreHandedOutTogether) {
  Wheel<int, 1> wheel;
  std::vector<int> expected;
  for (int i = 0; i < 1'000; ++i) {
    wheel.at(7, 0, i);
    expected.push_back(i);
  }
  int waiting = 0;
  wheel.for_each([&](unsigned, int) { ++waiting; });
  EXPECT_EQ(waiting, 1'000);
  wheel.run_until(8, [&](unsigned, std::span<const int> events) {
    EXPECT_EQ(std::vector<int>(events.begin(), events.end()), expected);
  });
}

TEST(Wheel, AHandlerMayAddForNow) {
  Wheel<int, 2> wheel;
  wheel.at(7, 0, 3);
  int handled = 0;
  wheel.run_until(8, [&](unsigned lane, std::span<const int> events) {
    ++handled;
    const int left = events.front();
    if (left > 0) wheel.at(wheel.now(), 1 - lane, left - 1);
  });
  EXPECT_EQ(handled, 4);
}

}  // namespace
}  // namespace weir::sim::network
