// The time of a step.
#include "base/now.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

int reads = 0;
Time clock() { return {++reads * 100}; }

TEST(Now, ReadsTheClockWhenAskedAndOnce) {
  reads = 0;
  const Now now(clock);
  EXPECT_EQ(reads, 0);
  EXPECT_EQ(now.time(), Time{100});
  EXPECT_EQ(now + Duration{5}, Time{105});
  EXPECT_EQ(reads, 1);
}

TEST(Now, ATimeIsItself) {
  const Now now = Time{42};
  EXPECT_EQ(now.time(), Time{42});
}

}  // namespace
}  // namespace weir
