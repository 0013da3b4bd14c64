// Which bucket a time falls in.
#include "base/read_times.h"

#include <gtest/gtest.h>

#include <iterator>
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

// From 4.096 us on each bucket is twice as wide as the one before, up to 67 ms.
TEST(ReadTimes, EachBoundBeginsTheNextBucket) {
  constexpr std::uint64_t bounds_ns[] = {4'096,     8'192,     16'384,     32'768,     65'536,
                                         131'072,   262'144,   524'288,    1'048'576,  2'097'152,
                                         4'194'304, 8'388'608, 16'777'216, 33'554'432, 67'108'864};
  ASSERT_EQ(std::size(bounds_ns), ReadTimes::buckets - 1);
  EXPECT_EQ(bucket_of(1), 0u);
  for (std::size_t i = 0; i < std::size(bounds_ns); ++i) {
    EXPECT_EQ(ReadTimes::below_ns(i), bounds_ns[i]);
    EXPECT_EQ(bucket_of(bounds_ns[i] - 1), i);
    EXPECT_EQ(bucket_of(bounds_ns[i]), i + 1);
  }
  EXPECT_EQ(bucket_of(3'600'000'000'000), ReadTimes::buckets - 1);
}

}  // namespace
}  // namespace weir
