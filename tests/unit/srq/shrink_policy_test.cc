// A window shrinks when it was hardly used for long, and less and less often when that was wrong.
#include "srq/shrink_policy.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

// Looks every quarter of `after` until it may shrink; how long that took.
Duration until_shrink(ShrinkPolicy& policy, Time& now, std::uint32_t used) {
  const Time start = now;
  for (int looks = 0; looks < 1000; ++looks) {
    now = now + policy.interval();
    if (policy.look(now, 64, used)) return now - start;
  }
  return seconds(0);
}

TEST(ShrinkPolicy, WaitsForAQuietTime) {
  ShrinkPolicy policy(seconds(2));
  Time now{5'000'000'000};
  EXPECT_EQ(until_shrink(policy, now, 24), milliseconds(2500));  // the first look begins it
}

TEST(ShrinkPolicy, AUsedWindowStays) {
  ShrinkPolicy policy(seconds(2));
  Time now{};
  EXPECT_EQ(until_shrink(policy, now, 25), seconds(0));
}

TEST(ShrinkPolicy, OneBusyLookBeginsTheWaitAgain) {
  ShrinkPolicy policy(seconds(2));
  Time now{};
  for (int looks = 0; looks < 4; ++looks) {
    now = now + policy.interval();
    EXPECT_FALSE(policy.look(now, 64, 3));
  }
  now = now + policy.interval();
  EXPECT_FALSE(policy.look(now, 64, 40));
  EXPECT_EQ(until_shrink(policy, now, 3), milliseconds(2500));
}

TEST(ShrinkPolicy, LearnsFromAShrinkThatHadToBeUndone) {
  ShrinkPolicy policy(seconds(2));
  Time now{};
  std::int64_t periods = 1;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(until_shrink(policy, now, 0), milliseconds(2000 * periods + 500));
    policy.shrank(now);
    policy.grew();
    periods = std::min(periods * 2, ShrinkPolicy::most_periods);
    EXPECT_EQ(policy.periods(), periods);
  }
  // Shrinks that stand make it bolder again.
  until_shrink(policy, now, 0);
  policy.shrank(now);
  EXPECT_EQ(policy.periods(), periods);
  until_shrink(policy, now, 0);
  policy.shrank(now);
  EXPECT_EQ(policy.periods(), periods / 2);
}

TEST(ShrinkPolicy, CanBeTurnedOff) {
  EXPECT_FALSE(ShrinkPolicy(Duration{}).enabled());
  EXPECT_TRUE(ShrinkPolicy(milliseconds(1)).enabled());
}

}  // namespace
}  // namespace weir
