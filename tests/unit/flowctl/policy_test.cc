// Sizes, rates and Algorithm 1.
#include <gtest/gtest.h>

#include "flowctl/rate_limiter.h"
#include "flowctl/size_class.h"
#include "flowctl/thresholds.h"

namespace weir {
namespace {

using Congestion = Thresholds::Congestion;
using Admission = Thresholds::Admission;

TEST(SizeClass, PowersOfTwo) {
  EXPECT_EQ(size_class(0), 0u);
  EXPECT_EQ(size_class(8), 0u);
  EXPECT_EQ(size_class(9), 1u);
  for (unsigned i = 0; i + 1 < size_classes; ++i) {
    EXPECT_EQ(size_class(size_class_bytes(i)), i);
    EXPECT_EQ(size_class(size_class_bytes(i) + 1), i + 1);
  }
  EXPECT_EQ(size_class(UINT64_MAX), size_classes - 1);
}

TEST(RateLimiter, WaitsByTheSizeOfTheLaterOne) {
  RateLimiter limiter;
  limiter.set_delay(size_class(64), microseconds(2));
  limiter.set_delay(size_class(4096), microseconds(10));
  const Time start{1'000'000};
  EXPECT_TRUE(limiter.may_inject(start, 4096));  // the first
  limiter.injected(start);
  EXPECT_TRUE(limiter.may_inject(start, 8));  // has no delay
  EXPECT_FALSE(limiter.may_inject(start, 64));
  EXPECT_EQ(limiter.next(64), start + microseconds(2));
  EXPECT_FALSE(limiter.may_inject({start.ns + 1999}, 64));
  EXPECT_TRUE(limiter.may_inject(start + microseconds(2), 64));
  EXPECT_FALSE(limiter.may_inject(start + microseconds(2), 4096));
  limiter.injected(start + microseconds(2));
  EXPECT_EQ(limiter.next(4096), start + microseconds(12));
}

TEST(RateLimiter, NoDelayByDefault) {
  RateLimiter limiter;
  limiter.injected({5});
  EXPECT_TRUE(limiter.may_inject({5}, 1 << 20));
  limiter.set_delay(0, {-5});
  EXPECT_EQ(limiter.delay(1), Duration{});
}

TEST(Thresholds, NothingSetIsStraightThrough) {
  const Thresholds thresholds;
  EXPECT_EQ(thresholds.admission(1 << 20, 1000, 1'000'000, 1'000'000, true),
            Admission::straight_through);
}

TEST(Thresholds, AlgorithmOne) {
  Thresholds thresholds;
  const unsigned c = size_class(1024);
  thresholds.set_cct(c, 16);
  thresholds.set_nrct(c, 40);
  thresholds.set_crct(1, c, 40);
  thresholds.set_crct(8, c, 4);
  struct Case {
    std::uint32_t active_cores;
    std::uint64_t active_node_msgs, active_msg;
    Congestion expected;
  };
  for (const Case& it : {Case{1, 39, 39, Congestion::none}, Case{1, 40, 39, Congestion::rate},
                         Case{1, 39, 40, Congestion::rate}, Case{8, 30, 3, Congestion::none},
                         Case{8, 30, 4, Congestion::rate}, Case{15, 39, 39, Congestion::none},
                         Case{16, 0, 0, Congestion::concurrency_and_rate},
                         Case{99, 99, 99, Congestion::concurrency_and_rate}}) {
    EXPECT_EQ(thresholds.congestion(1024, it.active_cores, it.active_node_msgs, it.active_msg),
              it.expected)
        << it.active_cores << " " << it.active_node_msgs << " " << it.active_msg;
  }
  // Of that size only.
  EXPECT_EQ(thresholds.congestion(1025, 99, 99, 99), Congestion::none);
  EXPECT_EQ(thresholds.congestion(512, 99, 99, 99), Congestion::none);
}

TEST(Thresholds, WithoutAPoolByRate) {
  Thresholds thresholds;
  thresholds.set_nrct(size_class(8), 0);
  EXPECT_EQ(thresholds.admission(8, 1, 0, 0, true), Admission::count_limit);
  EXPECT_EQ(thresholds.admission(8, 1, 0, 0, false), Admission::rate_limit);
}

TEST(Thresholds, CoresOutsideOfTheTable) {
  Thresholds thresholds;
  thresholds.set_crct(100'000, 0, 3);
  EXPECT_EQ(thresholds.crct(Thresholds::most_cores, 8), 3u);
  EXPECT_EQ(thresholds.crct(100'000, 8), 3u);
  EXPECT_EQ(thresholds.crct(0, 8), Thresholds::no_limit);
}

}  // namespace
}  // namespace weir
