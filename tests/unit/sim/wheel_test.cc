#include "tools/sim/network/wheel.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::sim::network {
namespace {

constexpr auto nothing = [](int, bool) {};

TEST(Wheel, RunsInOrderOfTimeThenOfAdding) {
  Wheel<int> wheel;
  wheel.at(5, 2);
  wheel.at(100'000, 4);  // beyond the horizon
  wheel.at(3, 1);
  wheel.at(5, 3);
  std::vector<int> seen;
  wheel.run_until(
      10, [&](int event) { seen.push_back(event); }, nothing);
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(wheel.now(), 10);
  EXPECT_FALSE(wheel.empty());
  // Added later, for the same time as one that has waited aside.
  wheel.run_until(
      99'000, [&](int event) { seen.push_back(event); }, nothing);
  wheel.at(100'000, 5);
  wheel.run_until(
      100'001, [&](int event) { seen.push_back(event); }, nothing);
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4, 5}));
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.handled(), 5u);
}

TEST(Wheel, AHandlerMayAddForNow) {
  Wheel<int> wheel;
  wheel.at(7, 3);
  int handled = 0;
  wheel.run_until(
      8,
      [&](int left) {
        ++handled;
        if (left > 0) wheel.at(wheel.now(), left - 1);
      },
      nothing);
  EXPECT_EQ(handled, 4);
}

}  // namespace
}  // namespace weir::sim::network
