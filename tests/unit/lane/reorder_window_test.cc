// Whatever the order that frames come in, they are handed up once each, in theirs.
#include "transport/lane/reorder_window.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/sim/random.h"

namespace weir {
namespace {

using Window = ReorderWindow<int>;

char letter(Window::Place place) { return "netb"[static_cast<int>(place)]; }

// Offers them and hands up what is next: the numbers, as distances from `first`, and what was said.
struct Played {
  std::string said;
  std::vector<int> up;
};

Played play(Window& window, std::uint32_t first, const std::vector<int>& order) {
  Played played;
  for (const int number : order) {
    const Window::Place place =
        window.offer((first + static_cast<std::uint32_t>(number)) & sequence_mask, number);
    played.said += letter(place);
    if (place != Window::Place::next) continue;
    played.up.push_back(number);
    while (const auto item = window.take_next()) played.up.push_back(*item);
  }
  return played;
}

struct Row {
  const char* what;
  std::vector<int> order;
  const char* said;  // next, early, twice, beyond
  std::vector<int> up;
  std::uint32_t held;
  std::uint32_t most_held;
};

const Row table[] = {
    {"in order", {0, 1, 2}, "nnn", {0, 1, 2}, 0, 0},
    {"the first comes last", {1, 2, 3, 0}, "eeen", {0, 1, 2, 3}, 0, 3},
    {"two gaps", {1, 3, 0, 2}, "eenn", {0, 1, 2, 3}, 0, 2},
    {"from behind", {3, 2, 1, 0}, "eeen", {0, 1, 2, 3}, 0, 3},
    {"a gap that stays", {0, 2, 3}, "nee", {0}, 2, 2},
    {"handed up, and again", {0, 0, 1, 0}, "ntnt", {0, 1}, 0, 0},
    {"held, and again", {2, 2, 0, 1, 2}, "etnnt", {0, 1, 2}, 0, 1},
    {"far behind", {0, -1, -100'000}, "ntt", {0}, 0, 0},
    {"the last place, and beyond", {7, 8, 9, 0, 8}, "ebbne", {0}, 2, 2},
    {"far beyond", {100'000, 0}, "bn", {0}, 0, 0},
    {"all places", {1, 2, 3, 4, 5, 6, 7, 8, 0, 8}, "eeeeeeebnn", {0, 1, 2, 3, 4, 5, 6, 7, 8}, 0, 7},
};

// From the begin of the numbers, and where they begin again.
constexpr std::uint32_t firsts[] = {
    0, 1, 1000, sequence_half - 2, sequence_mask, sequence_mask - 2};

TEST(ReorderWindow, FollowsTheTable) {
  for (const Row& row : table) {
    for (const std::uint32_t first : firsts) {
      SCOPED_TRACE(row.what + std::string(" from ") + std::to_string(first));
      Window window(8, first);
      const Played played = play(window, first, row.order);
      EXPECT_EQ(played.said, row.said);
      EXPECT_EQ(played.up, row.up);
      EXPECT_EQ(window.held(), row.held);
      EXPECT_EQ(window.most_held(), row.most_held);
      EXPECT_EQ(window.expected(), (first + row.up.size()) & sequence_mask);
    }
  }
}

TEST(ReorderWindow, PlacesAreAPowerOfTwo) {
  for (const auto& [asked, made] :
       std::map<std::uint32_t, std::uint32_t>{{0, 1}, {1, 1}, {2, 2}, {5, 8}, {64, 64}}) {
    Window window(asked);
    EXPECT_EQ(window.offer(made, 0), Window::Place::beyond) << asked;
    EXPECT_EQ(window.offer(made - 1, 0), made > 1 ? Window::Place::early : Window::Place::next);
  }
}

// Whoever hands up may stop in between.
TEST(ReorderWindow, WhatWasNotHandedUpYetStaysHeld) {
  Window window(4);
  window.offer(1, 1);
  window.offer(2, 2);
  EXPECT_EQ(window.offer(0, 0), Window::Place::next);
  EXPECT_EQ(window.offer(1, 9), Window::Place::twice);
  EXPECT_EQ(window.offer(4, 4), Window::Place::early);  // the ring has come round
  EXPECT_EQ(window.take_next(), 1);
  EXPECT_EQ(window.take_next(), 2);
  EXPECT_EQ(window.take_next(), std::nullopt);
  EXPECT_EQ(window.expected(), 3u);
  EXPECT_EQ(window.held(), 1u);
  EXPECT_EQ(window.early_count(), 3u);
}

// Frames of a window in any order, some of them twice, some beyond, against a set of numbers.
TEST(ReorderWindow, AnyOrderAgainstASet) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    sim::Random random(seed);
    const std::uint32_t places = 1u << random.between(0, 6);
    const std::uint32_t first = (sequence_mask - random.between(0, 100)) & sequence_mask;
    ReorderWindow<std::uint32_t> window(places, first);
    std::uint32_t expected = 0;  // all of these are distances from `first`
    std::set<std::uint32_t> held;
    std::size_t most_held = 0;
    std::uint64_t early = 0;
    for (int i = 0; i < 1'000; ++i) {
      const std::uint32_t low = expected - std::min(expected, places);
      const std::uint32_t number = random.between(low, expected + places + 1);
      const auto place = window.offer((first + number) & sequence_mask, number);
      using Place = ReorderWindow<std::uint32_t>::Place;
      if (number < expected || held.contains(number)) {
        ASSERT_EQ(place, Place::twice) << seed;
      } else if (number >= expected + places) {
        ASSERT_EQ(place, Place::beyond) << seed;
      } else if (number > expected) {
        ASSERT_EQ(place, Place::early) << seed;
        held.insert(number);
        ++early;
      } else {
        ASSERT_EQ(place, Place::next) << seed;
        ++expected;
        while (held.erase(expected) > 0) ASSERT_EQ(window.take_next(), expected++) << seed;
        ASSERT_EQ(window.take_next(), std::nullopt) << seed;
      }
      most_held = std::max(most_held, held.size());
      ASSERT_EQ(window.held(), held.size()) << seed;
      ASSERT_EQ(window.most_held(), most_held) << seed;
      ASSERT_EQ(window.early_count(), early) << seed;
      ASSERT_EQ(window.expected(), (first + expected) & sequence_mask) << seed;
    }
  }
}

}  // namespace
}  // namespace weir
