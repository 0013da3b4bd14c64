// The table of RNR NAK timer codes, against the numbers of the specification. [IBTA table 45]
#include "srq/rnr_timer.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

constexpr double table_ms[32] = {655.36, 0.01,  0.02,  0.03,   0.04,   0.06,   0.08,   0.12,
                                 0.16,   0.24,  0.32,  0.48,   0.64,   0.96,   1.28,   1.92,
                                 2.56,   3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72,
                                 40.96,  61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};

TEST(RnrTimer, MatchesTheSpecification) {
  for (std::uint8_t code = 0; code < 32; ++code) {
    EXPECT_NEAR(static_cast<double>(rnr_timer_duration(code).ns) / 1e6, table_ms[code], 1e-6)
        << int{code};
    EXPECT_EQ(rnr_timer_duration(static_cast<std::uint8_t>(code + 32)), rnr_timer_duration(code));
  }
}

TEST(RnrTimer, GivesTheShortestThatIsLongEnough) {
  EXPECT_EQ(rnr_timer_code({0}), 1);  // the trap: 0 is the longest of all
  EXPECT_EQ(rnr_timer_code(microseconds(10)), 1);
  EXPECT_EQ(rnr_timer_code(microseconds(11)), 2);
  EXPECT_EQ(rnr_timer_code(microseconds(640)), 12);
  EXPECT_EQ(rnr_timer_code(microseconds(641)), 13);
  EXPECT_EQ(rnr_timer_code(microseconds(491520)), 31);
  EXPECT_EQ(rnr_timer_code(microseconds(491521)), 0);
  EXPECT_EQ(rnr_timer_code(seconds(5)), 0);
}

TEST(RnrTimer, EveryCodeIsItsOwnAnswer) {
  for (std::uint8_t code = 0; code < 32; ++code) {
    EXPECT_EQ(rnr_timer_code(rnr_timer_duration(code)), code);
  }
}

TEST(RnrAdvisor, FollowsTheTimesWithoutReceives) {
  RnrAdvisor advisor(12);
  EXPECT_TRUE(advisor.add(milliseconds(4), 1));
  EXPECT_GE(rnr_timer_duration(advisor.code()), milliseconds(4));
  for (int i = 0; i < 100; ++i) advisor.add(microseconds(150), 1);
  EXPECT_GE(rnr_timer_duration(advisor.code()), microseconds(150));
  EXPECT_LE(rnr_timer_duration(advisor.code()), microseconds(480));
}

TEST(RnrAdvisor, IsNotMovedByOneCode) {
  RnrAdvisor advisor(12);
  for (int i = 0; i < 100; ++i) advisor.add(microseconds(600), 1);
  const std::uint8_t code = advisor.code();
  int changes = 0;
  for (int i = 0; i < 1000; ++i) {
    changes += advisor.add(microseconds(i % 2 == 0 ? 600 : 700), 1) ? 1 : 0;
  }
  EXPECT_LE(changes, 1);
  EXPECT_NEAR(advisor.code(), code, 2);
}

// Senders that all try again at once are a load of their own.
TEST(RnrAdvisor, NeverAdvisesLessThanAMicrosecondASender) {
  RnrAdvisor advisor(12);
  for (int i = 0; i < 100; ++i) advisor.add({0}, 2);
  EXPECT_EQ(rnr_timer_duration(advisor.code()), microseconds(80));
  for (int i = 0; i < 100; ++i) advisor.add({0}, 1000);
  EXPECT_GE(rnr_timer_duration(advisor.code()), milliseconds(1));
  EXPECT_LE(rnr_timer_duration(advisor.code()), milliseconds(2));
}

TEST(RnrAdvisor, OneLongComputationDoesNotMakeSendersWaitForTheNext) {
  RnrAdvisor advisor(12);
  advisor.add(seconds(100), 2);
  EXPECT_LE(rnr_timer_duration(advisor.code()), microseconds(10240));
  EXPECT_NE(advisor.code(), 0);
}

}  // namespace
}  // namespace weir
