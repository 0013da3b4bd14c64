// How much a source has outstanding, whatever the order of acknowledgements; and that this is never
// beyond what its peer's window has places for.
#include "transport/lane/send_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tools/sim/random.h"
#include "transport/lane/reorder_window.h"

namespace weir {
namespace {

TEST(SendWindow, HalfOfThePlacesAtMost) {
  struct Row {
    std::uint32_t places;
    std::uint32_t most;
  };
  for (const auto [places, most] :
       {Row{0, 1}, Row{1, 1}, Row{2, 1}, Row{6, 3}, Row{50, 25}, Row{64, 32}}) {
    SendWindow window(places);
    std::uint32_t taken = 0;
    while (window.has_room()) EXPECT_EQ(window.take(), taken++);
    EXPECT_EQ(taken, most);
    EXPECT_EQ(window.outstanding(), most);
  }
}

struct Step {
  std::uint32_t acknowledged;  // distances from the first
  bool counts;
  std::uint32_t oldest;
  bool room;
};

// Four are outstanding, of four that may be; so there is room when the oldest one has arrived.
const std::vector<Step> orders[] = {
    {{0, true, 1, true}, {1, true, 2, true}, {2, true, 3, true}, {3, true, 4, true}},
    {{3, true, 0, false}, {2, true, 0, false}, {1, true, 0, false}, {0, true, 4, true}},
    {{1, true, 0, false}, {0, true, 2, true}, {3, true, 2, true}, {2, true, 4, true}},
    {{1, true, 0, false}, {1, false, 0, false}, {0, true, 2, true}, {0, false, 2, true}},
    {{4, false, 0, false}, {sequence_mask, false, 0, false}, {100'000, false, 0, false}},
};

TEST(SendWindow, AcknowledgementsInAnyOrder) {
  for (const std::vector<Step>& order : orders) {
    for (const std::uint32_t first :
         {0u, 7u, sequence_half - 1, sequence_mask - 1, sequence_mask}) {
      SendWindow window(8, first);
      while (window.has_room()) window.take();
      for (const Step& step : order) {
        SCOPED_TRACE(std::to_string(first) + ": " + std::to_string(step.acknowledged));
        EXPECT_EQ(window.acknowledge((first + step.acknowledged) & sequence_mask), step.counts);
        EXPECT_EQ(window.oldest(), (first + step.oldest) & sequence_mask);
        EXPECT_EQ(window.has_room(), step.room);
        EXPECT_EQ(window.next(), (first + 4) & sequence_mask);
      }
    }
  }
}

TEST(SendWindow, NothingIsOutstandingAtFirst) {
  SendWindow window(8, 5);
  EXPECT_FALSE(window.acknowledge(5));
  EXPECT_EQ(window.oldest(), window.next());
}

// Frames and acknowledgements overtake each other as they like, across the wrap.
TEST(SendWindow, APeersWindowHasAPlaceForWhateverIsSent) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    sim::Random random(seed);
    const std::uint32_t places = random.between(1, 64);
    const std::uint32_t first = (sequence_mask - random.between(0, 300)) & sequence_mask;
    SendWindow source(places, first);
    ReorderWindow<std::uint32_t> target(places, first);
    std::vector<std::uint32_t> frames;
    std::vector<std::uint32_t> acknowledgements;
    const auto take_any = [&](std::vector<std::uint32_t>& from) {
      std::swap(from[random.below(from.size())], from.back());
      const std::uint32_t number = from.back();
      from.pop_back();
      return number;
    };
    std::uint32_t up = first;
    for (int i = 0; i < 5'000; ++i) {
      const std::uint64_t turn = random.below(3);
      if (turn == 0 && source.has_room()) frames.push_back(source.take());
      if (turn == 1 && !frames.empty()) {
        const std::uint32_t number = take_any(frames);
        acknowledgements.push_back(number);
        const auto place = target.offer(number, number);
        ASSERT_NE(place, ReorderWindow<std::uint32_t>::Place::twice) << seed;
        ASSERT_NE(place, ReorderWindow<std::uint32_t>::Place::beyond) << seed;
        if (place == ReorderWindow<std::uint32_t>::Place::next) {
          ASSERT_EQ(number, up) << seed;
          up = next_number(up);
          while (const auto item = target.take_next()) {
            ASSERT_EQ(*item, up) << seed;
            up = next_number(up);
          }
        }
      }
      if (turn == 2 && !acknowledgements.empty()) {
        ASSERT_TRUE(source.acknowledge(take_any(acknowledgements))) << seed;
      }
      ASSERT_LE(source.outstanding(), std::max(places / 2, 1u)) << seed;
    }
    ASSERT_LE(target.most_held(), places / 2) << seed;
    ASSERT_GT(ahead(up, first), 300u) << seed;
  }
}

}  // namespace
}  // namespace weir
