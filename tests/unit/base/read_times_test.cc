// Which bucket a time falls in.
#include "transport/base/read_times.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weir {
namespace {

std::size_t bucket_of(std::uint64_t ns) {
  ReadTimes times;
  times.add(Duration{static_cast<std::int64_t>(ns)});
  EXPECT_EQ(times.sum_ns, ns);
  EXPECT_EQ(std::accumulate(times.counts.begin(), times.counts.end(), 0u), 1u);
  std::size_t bucket = 0;
  while (times.counts[bucket] == 0) ++bucket;
  return bucket;
}

TEST(ReadTimes, EachBoundBeginsTheNextBucket) {
  EXPECT_EQ(bucket_of(1), 0u);
  for (std::size_t i = 0; i + 1 < ReadTimes::buckets; ++i) {
    EXPECT_EQ(bucket_of(ReadTimes::below_ns(i) - 1), i);
    EXPECT_EQ(bucket_of(ReadTimes::below_ns(i)), i + 1);
  }
  EXPECT_EQ(bucket_of(3'600'000'000'000), ReadTimes::buckets - 1);
}

}  // namespace
}  // namespace weir
