#include "tools/sim/network/wheel.h"

#include <gtest/gtest.h>

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
  const auto note = [&](unsigned, int event) { seen.push_back(event); };
  wheel.run_until(10, note);
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(wheel.now(), 10);
  // Added later, for the same time as one that has waited aside.
  wheel.run_until(99'000, note);
  wheel.at(100'000, 0, 6);
  wheel.run_until(100'001, note);
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(wheel.handled(), 6u);
}

TEST(Wheel, ShowsEveryEventThatWaits) {
  Wheel<int, 2> wheel;
  wheel.at(7, 0, 1);
  wheel.at(7, 1, 2);
  wheel.at(100'000, 0, 4);
  int sum = 0;
  wheel.for_each([&](unsigned, int event) { sum += event; });
  EXPECT_EQ(sum, 7);
}

TEST(Wheel, AHandlerMayAddForNow) {
  Wheel<int, 2> wheel;
  wheel.at(7, 0, 3);
  int handled = 0;
  wheel.run_until(8, [&](unsigned lane, int left) {
    ++handled;
    if (left > 0) wheel.at(wheel.now(), 1 - lane, left - 1);
  });
  EXPECT_EQ(handled, 4);
}

}  // namespace
}  // namespace weir::sim::network
