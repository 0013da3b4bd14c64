// The declared adapter: what it costs within its cache, beyond it, and that it keeps the order.
#include "tools/sim/shared_adapter.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

constexpr SharedAdapter::Config config{.contexts = 4, .serve = {100}, .miss = {600}};

// `out` requests are always out; each answered one is followed by the next. Time for each.
double time_of(std::uint64_t out) {
  SharedAdapter adapter(config, 1);
  Time last{};
  for (std::uint64_t i = 0; i < out; ++i) last = adapter.begin({}, i);
  const std::uint64_t rounds = 20'000;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const Time ended = adapter.end(last, i);
    EXPECT_GE(ended, last);
    last = adapter.begin(ended, i + out);
  }
  return static_cast<double>(last.ns) / static_cast<double>(rounds);
}

TEST(SharedAdapter, WithinItsCacheARequestIsServedTwice) {
  EXPECT_NEAR(time_of(1), 200, 1);
  EXPECT_NEAR(time_of(4), 200, 1);
}

TEST(SharedAdapter, BeyondItTheStateOfSomeHasToBeFetched) {
  EXPECT_GT(time_of(5), 300);
  EXPECT_GT(time_of(8), time_of(5));
  EXPECT_LT(time_of(8), 750);
  EXPECT_NEAR(time_of(64), 800, 5);
}

TEST(SharedAdapter, WhoComesWhileItIsBusyWaits) {
  SharedAdapter adapter(config, 1);
  EXPECT_EQ(adapter.begin({1000}, 1).ns, 1100);
  EXPECT_EQ(adapter.begin({1000}, 2).ns, 1200);
  EXPECT_EQ(adapter.end({5000}, 1).ns, 5100);
}

TEST(SharedAdapter, ARequestThatIsRepeatedHasOneContext) {
  SharedAdapter adapter(config, 1);
  Time last{};
  for (int i = 0; i < 8; ++i) adapter.begin({}, 1);
  for (std::uint64_t other = 2; other <= 4; ++other) adapter.begin({}, other);
  for (std::uint64_t each = 1; each <= 4; ++each) last = adapter.end({}, each);
  EXPECT_EQ(last.ns, 15 * 100);  // nobody waited for a context
}

}  // namespace
}  // namespace weir::sim
