// The clock of the simulator, and its random numbers: the same everywhere, or seeds mean nothing.
#include "tools/sim/event_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/contract/random_world.h"
#include "tools/sim/random.h"

namespace weir::sim {
namespace {

TEST(EventQueue, RunsInOrderOfTimeAndThenOfArrival) {
  EventQueue events;
  std::vector<int> seen;
  const auto note = [&](int value) { return [&seen, value] { seen.push_back(value); }; };
  events.at({30}, note(4));
  events.at({10}, note(1));
  events.at({20}, note(2));
  events.at({20}, note(3));
  while (events.step()) {
  }
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(events.now(), Time{30});
}

TEST(EventQueue, NeverGoesBack) {
  EventQueue events;
  Time seen{};
  events.at({50}, [&] { events.at({10}, [&] { seen = events.now(); }); });
  events.run_until({100});
  EXPECT_EQ(seen, Time{50});
  EXPECT_EQ(events.now(), Time{100});
  EXPECT_TRUE(events.empty());
}

TEST(Random, IsTheSameEverywhere) {
  Random random(42);
  EXPECT_EQ(random.next(), 13679457532755275413ull);  // splitmix64, published values
  EXPECT_EQ(random.next(), 2949826092126892291ull);
  EXPECT_EQ(random.next(), 5139283748462763858ull);
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t value = random.between(3, 7);
    EXPECT_GE(value, 3u);
    EXPECT_LE(value, 7u);
  }
  EXPECT_EQ(random.below(0), 0u);
}

TEST(World, IsAFunctionOfItsSeed) {
  for (std::uint64_t seed = 1000; seed < 1010; ++seed) {
    const Outcome first = run(random_plan(seed));
    const Outcome second = run(random_plan(seed));
    EXPECT_EQ(first.messages, second.messages);
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_EQ(first.end, second.end);
  }
}

}  // namespace
}  // namespace weir::sim
