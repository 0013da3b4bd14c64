// Most bytes a second, by a clock that the test moves.
#include "flowctl/pace.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

constexpr std::uint64_t rate = 1'000'000;  // 1 B/us

TEST(Pace, WithoutALimitThereIsNone) {
  EXPECT_FALSE(Pace().on());
  Pace pace;
  pace.limit(rate);
  EXPECT_TRUE(pace.on());
  pace.limit(0);
  EXPECT_FALSE(pace.on());
}

// Whoever asks at any time gets the rate in the long run, whatever the sizes.
TEST(Pace, IsKept) {
  for (const std::uint64_t bytes : {1ull, 1000ull, 131072ull}) {
    for (const Duration look : {microseconds(1), microseconds(700), milliseconds(10)}) {
      Pace pace;
      pace.limit(rate);
      std::uint64_t went = 0;
      Time now{};
      for (; now < Time{} + seconds(4); now = now + look) {
        while (pace.next() <= now) {
          pace.went(now, bytes);
          went += bytes;
        }
      }
      EXPECT_NEAR(static_cast<double>(went), 4.0 * rate, 0.02 * 4 * rate + 131072)
          << bytes << " bytes, looks every " << look.ns << " ns";
    }
  }
}

TEST(Pace, ALongRestIsNotMadeGood) {
  Pace pace;
  pace.limit(rate);
  pace.went(Time{}, 1000);
  const Time later = Time{} + seconds(100);
  std::uint64_t went = 0;
  for (; pace.next() <= later; went += 1000) pace.went(later, 1000);
  EXPECT_LE(went, static_cast<std::uint64_t>(Pace::catch_up.ns / 1000) + 2000);
}

TEST(Pace, ANewLimitHoldsAtOnce) {
  Pace pace;
  pace.limit(rate);
  pace.went(Time{}, 100'000'000);
  EXPECT_GT(pace.next(), Time{} + seconds(99));
  pace.limit(rate);
  EXPECT_LE(pace.next(), Time{});
}

}  // namespace
}  // namespace weir
