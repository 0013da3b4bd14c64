#include "transport/verbs/pair_numbers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>

namespace weir::verbs {
namespace {

TEST(PairNumbers, FindsNothingInNothing) {
  const PairNumbers numbers;
  EXPECT_EQ(numbers.find(17), LaneId::none);
}

// Against a map, with numbers that collide at every size of the table.
TEST(PairNumbers, FindsWhatIsThereAndNothingElse) {
  PairNumbers numbers;
  std::map<std::uint32_t, LaneId> there;
  std::mt19937 engine(7);
  const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
  for (std::uint32_t step = 0; step < 20000; ++step) {
    const std::uint32_t number = (random() % 64) * 1024 + random() % 4;
    if (there.erase(number) > 0) {
      numbers.remove(number);
    } else {
      numbers.add(number, LaneId{step});
      there[number] = LaneId{step};
    }
    for (std::uint32_t probe = 0; probe < 8; ++probe) {
      const std::uint32_t wanted = (random() % 64) * 1024 + random() % 4;
      const auto found = there.find(wanted);
      ASSERT_EQ(numbers.find(wanted), found == there.end() ? LaneId::none : found->second);
    }
  }
}

TEST(PairNumbers, RemovesWhatIsNotThere) {
  PairNumbers numbers;
  numbers.add(8, LaneId{1});
  numbers.remove(16);
  EXPECT_EQ(numbers.find(8), LaneId{1});
}

}  // namespace
}  // namespace weir::verbs
