// The declared adapter: what it costs within its cache, beyond it, and that it keeps the order.
#include "tools/sim/shared_adapter.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

constexpr SharedAdapter::Config config{
    .contexts = 4, .of = ContextOf::request, .serve = {100}, .miss = {600}};

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
  for (int i = 0; i < 8; ++i) adapter.begin({}, 1);
  for (std::uint64_t other = 2; other <= 4; ++other) adapter.begin({}, other);
  for (std::uint64_t each = 1; each <= 4; ++each) adapter.end({}, each);
  EXPECT_EQ(adapter.counts().served, 15u);
  EXPECT_EQ(adapter.counts().misses, 0u);
}

// Of `pairs` queue pairs, one request after the other: of those that come later, how many of 1,000
// requests and answers find no context.
std::uint64_t misses_of(std::uint64_t pairs) {
  SharedAdapter adapter({.contexts = 4, .of = ContextOf::queue_pair, .serve = {}, .miss = {600}},
                        1);
  Time now{};
  const auto use = [&](std::uint64_t requests) {
    for (std::uint64_t i = 0; i < requests; ++i) {
      now = adapter.begin(now, i % pairs);
      now = adapter.end(now, i % pairs);
    }
  };
  use(pairs);
  EXPECT_EQ(adapter.counts().misses, pairs);  // each comes once, at least
  use(500);
  EXPECT_EQ(now.ns, 600 * static_cast<std::int64_t>(adapter.counts().misses));
  return adapter.counts().misses - pairs;
}

TEST(SharedAdapter, AContextOfAQueuePairStaysForItsNextRequest) {
  EXPECT_EQ(misses_of(1), 0u);
  EXPECT_EQ(misses_of(4), 0u);
  EXPECT_GT(misses_of(5), 50u);
  EXPECT_GT(misses_of(64), 450u);
  EXPECT_LE(misses_of(64), 500u);  // the answer finds what its request has loaded
}

}  // namespace
}  // namespace weir::sim
