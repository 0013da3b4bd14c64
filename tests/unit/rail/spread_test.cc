// Over which lane a chunk goes, and which lane is left.
#include "transport/rail/spread.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/rail/units.h"

namespace weir {
namespace {

constexpr std::uint64_t chunk = 128 * KiB;

// `ms` after the start.
Time at(std::int64_t ms) { return start + milliseconds(ms); }

// Chunks one after the other over the lane, each of which takes so long.
void measure(Spread& spread, std::size_t lane, std::int64_t ms) {
  spread.begin(at(0), lane, chunk);
  spread.end(at(ms), lane, chunk);
}

TEST(Spread, EqualLanesTakeTurns) {
  Spread spread;
  std::array<int, 8> chunks{};
  for (int i = 0; i < 12; ++i) {
    const std::size_t lane = spread.choose(0b1011, chunk);
    spread.begin(at(0), lane, chunk);
    ++chunks[lane];
  }
  EXPECT_EQ(chunks, (std::array<int, 8>{4, 4, 0, 4}));
  EXPECT_EQ(spread.waiting_bytes(), 12 * chunk);
}

TEST(Spread, WithNothingUnderWayItIsNotAlwaysTheSame) {
  Spread spread;
  std::array<bool, 8> used{};
  for (int i = 0; i < 4; ++i) {
    const std::size_t lane = spread.choose(0b1111, chunk);
    used[lane] = true;
    measure(spread, lane, 10);
  }
  EXPECT_EQ(used, (std::array<bool, 8>{true, true, true, true}));
}

// Two of three share a path: each is half as fast, and gets half as much.
TEST(Spread, WhoIsThroughFirstGetsIt) {
  Spread spread;
  measure(spread, 0, 20);
  measure(spread, 1, 20);
  measure(spread, 2, 10);
  std::array<int, 8> chunks{};
  for (int i = 0; i < 16; ++i) {
    const std::size_t lane = spread.choose(0b111, chunk);
    spread.begin(at(20), lane, chunk);
    ++chunks[lane];
  }
  EXPECT_EQ(chunks, (std::array<int, 8>{4, 4, 8}));
}

TEST(Spread, ALaneIsSlowWhenTheOthersHaveLongMovedAsMuch) {
  Spread spread;
  for (std::size_t lane : {0, 1}) measure(spread, lane, 10);
  spread.begin(at(100), 0, chunk);
  for (std::int64_t i = 0; i < 4; ++i) {
    spread.begin(at(100 + 10 * i), 1, chunk);
    spread.end(at(110 + 10 * i), 1, chunk);
  }
  EXPECT_FALSE(spread.slow(at(149), 0b11)) << "four times what its chunk takes, and 50 ms";
  EXPECT_FALSE(spread.slow(at(160), 0b01)) << "there is no other";
  EXPECT_EQ(spread.slow(at(160), 0b11), 0u);
  spread.end(at(165), 0, chunk);
  spread.begin(at(165), 0, chunk);
  EXPECT_FALSE(spread.slow(at(300), 0b11)) << "the others have moved nothing since";
}

// All stand still: the peer is silent, or this process did not run.
TEST(Spread, NobodyIsSlowWhileNobodyMoves) {
  Spread spread;
  for (std::size_t lane : {0, 1, 2}) measure(spread, lane, 10);
  for (std::size_t lane : {0, 1, 2}) spread.begin(at(100), lane, chunk);
  EXPECT_FALSE(spread.slow(at(60000), 0b111));
}

// The more waits, the longer it may take: the path may be one.
TEST(Spread, PatienceIsForAllThatWaits) {
  Spread spread;
  for (std::size_t lane : {0, 1}) measure(spread, lane, 10);
  for (int i = 0; i < 4; ++i) spread.begin(at(100), 0, chunk);
  for (int i = 0; i < 8; ++i) spread.begin(at(100), 1, chunk);
  for (int i = 0; i < 4; ++i) spread.end(at(140), 1, chunk);
  EXPECT_FALSE(spread.slow(at(100 + 4 * 80 - 1), 0b11));
  EXPECT_EQ(spread.slow(at(100 + 4 * 80 + 1), 0b11), 0u);
}

TEST(Spread, WhatIsLeftComesBackAfterAPauseAndWithLittle) {
  Spread spread;
  for (std::size_t lane : {0, 1}) measure(spread, lane, 10);
  spread.begin(at(100), 0, chunk);
  spread.leave(at(200), 0);
  spread.lose(at(200), 0, chunk);
  EXPECT_EQ(spread.waiting_bytes(), 0u);
  EXPECT_FALSE(spread.may_be_made(at(699), 0));
  EXPECT_TRUE(spread.may_be_made(at(700), 0));
  EXPECT_TRUE(spread.may_be_made(at(200), 1));
  spread.begin_anew(0);
  EXPECT_EQ(spread.meter(0).rate(), 0) << "its path is another";
  int chunks = 0;
  for (int i = 0; i < 11; ++i) {
    const std::size_t lane = spread.choose(0b11, chunk);
    spread.begin(at(1000), lane, chunk);
    chunks += lane == 0 ? 1 : 0;
  }
  EXPECT_EQ(chunks, 1) << "a tenth of the other's share";
  spread.leave(at(2000), 0);
  EXPECT_FALSE(spread.may_be_made(at(2999), 0)) << "twice as long";
}

TEST(Spread, EndsWithTheConnection) {
  Spread spread;
  measure(spread, 0, 10);
  spread.begin(at(20), 0, chunk);
  spread.leave(at(30), 1);
  spread.clear();
  EXPECT_EQ(spread.waiting_bytes(), 0u);
  EXPECT_EQ(spread.meter(0).waiting_bytes(), 0u);
  EXPECT_FALSE(spread.may_be_made(at(31), 1)) << "which fabric it is does not change";
}

}  // namespace
}  // namespace weir
