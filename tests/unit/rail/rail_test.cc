// What is known of a rail, and of the way to a peer over it.
#include <gtest/gtest.h>

#include "tests/unit/rail/units.h"
#include "transport/rail/meter.h"
#include "transport/rail/way.h"

namespace weir {
namespace {

TEST(RailMeter, TheRateIsThatOfTheTimeInWhichThereWasSomethingToMove) {
  RailMeter meter;
  EXPECT_EQ(meter.rate(), 0);
  meter.begin(start, MiB);
  meter.begin(start + milliseconds(10), MiB);
  EXPECT_EQ(meter.waiting_bytes(), 2 * MiB);
  meter.end(start + milliseconds(50), MiB, true);
  EXPECT_EQ(meter.rate(), 0) << "there is more under way";
  meter.end(start + milliseconds(100), MiB, true);
  EXPECT_DOUBLE_EQ(meter.rate(), 2 * MiB / .1);
  meter.begin(start + seconds(9), MiB);
  meter.end(start + seconds(9) + milliseconds(50), MiB, true);
  EXPECT_DOUBLE_EQ(meter.rate(), MiB / .05) << "the pause does not count";
}

TEST(RailMeter, ALongStreamIsMeasuredOnTheWay) {
  RailMeter meter;
  meter.begin(start, 8 * MiB);
  meter.begin(start, 8 * MiB);
  meter.end(start + seconds(1), 8 * MiB, true);
  EXPECT_DOUBLE_EQ(meter.rate(), 8.0 * MiB);
}

TEST(RailMeter, WhatIsLostSaysNothingOfTheRate) {
  RailMeter meter;
  meter.begin(start, MiB);
  meter.end(start + milliseconds(100), MiB, true);
  const double rate = meter.rate();
  meter.begin(start + seconds(1), MiB);
  meter.end(start + seconds(9), MiB, false);
  EXPECT_EQ(meter.rate(), rate);
  EXPECT_EQ(meter.waiting_bytes(), 0u);
  RailMeter other;
  other.begin(start, MiB);
  other.begin(start, MiB);
  other.end(start + milliseconds(50), MiB, false);
  other.end(start + milliseconds(100), MiB, true);
  EXPECT_DOUBLE_EQ(other.rate(), MiB / .1);
}

TEST(Way, IsOpenAndWholeAtFirst) {
  const Way way;
  EXPECT_TRUE(way.is_open(start));
  EXPECT_EQ(way.share(), Way::whole);
  EXPECT_FALSE(way.is_lost());
}

TEST(Way, ThePauseDoublesAndHasAnEnd) {
  Way way;
  Time now = start;
  EXPECT_EQ(way.lose(now), Way::first_pause);
  EXPECT_FALSE(way.is_open(now + Way::first_pause / 2));
  EXPECT_TRUE(way.is_open(now + Way::first_pause));
  now = now + seconds(1);
  EXPECT_EQ(way.lose(now), Way::first_pause * 2);
  for (int i = 0; i < 20; ++i) way.lose(now);
  EXPECT_EQ(way.lose(now), Way::longest_pause);
  EXPECT_EQ(way.lost_at(), start);
  EXPECT_EQ(way.lose(now + Way::forgets_after), Way::first_pause);
}

TEST(Way, TheShareRisesWithWhatComes) {
  Way way;
  way.lose(start);
  EXPECT_TRUE(way.is_lost());
  EXPECT_EQ(way.share(), 100u);
  way.carry();
  EXPECT_FALSE(way.is_lost());
  EXPECT_EQ(way.share(), 200u);
  for (int i = 0; i < 5; ++i) way.carry();
  EXPECT_EQ(way.share(), Way::whole);
}

}  // namespace
}  // namespace weir
