// Messages divided among rails.
#include "transport/rail/divide.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/unit/rail/units.h"

namespace weir {
namespace {

std::uint64_t sum(const RailParts& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::uint64_t{0});
}

TEST(Divide, EqualRailsGetEqualParts) {
  const RailParts parts = divide({RailLoad{1e9, 0}, {1e9, 0}}, MiB, 65536);
  EXPECT_EQ(parts[0], MiB / 2);
  EXPECT_EQ(parts[1], MiB / 2);
}

// A process that notices the ends of both parts at the same time measures what it has divided.
TEST(Divide, AnAccidentOfEqualRailsDoesNotLast) {
  RailLoads loads{{{1.25e9, 0}, {1e9, 0}, {0.5e9, 0}}};
  RailParts parts;
  for (int times = 0; times < 6; ++times) {
    parts = divide(loads, 16 * MiB, 65536);
    for (std::size_t i = 0; i < 3; ++i) loads[i].rate = static_cast<double>(parts[i]);
  }
  EXPECT_NEAR(static_cast<double>(parts[0]) / static_cast<double>(parts[1]), 1, 0.01);
  EXPECT_NEAR(static_cast<double>(parts[2]) / (16 * MiB), 0.5 / 2.75, 0.01) << "is slower in truth";
}

TEST(Divide, PartsFollowTheRates) {
  const RailParts parts = divide({RailLoad{1e8, 0}, {5e7, 0}}, 3 * MiB, 65536);
  EXPECT_EQ(parts[0], 2 * MiB);
  EXPECT_EQ(parts[1], MiB);
}

TEST(Divide, WhoHasMuchToDoGetsLess) {
  const RailParts parts = divide({RailLoad{1e9, MiB}, {1e9, 0}}, 3 * MiB, 65536);
  EXPECT_EQ(parts[0], MiB);
  EXPECT_EQ(parts[1], 2 * MiB);
}

TEST(Divide, ASmallPartIsNotWorthWhile) {
  const RailParts slow = divide({RailLoad{1e9, 0}, {1e7, 0}}, MiB, 65536);
  EXPECT_EQ(slow[0], MiB);
  const RailParts busy = divide({RailLoad{1e9, 64 * MiB}, {1e9, 0}}, MiB, 65536);
  EXPECT_EQ(busy[0], 0u);
  EXPECT_EQ(busy[1], MiB);
}

TEST(Divide, AnUndividedMessageGoesWhereItIsThroughFirst) {
  EXPECT_EQ(divide({RailLoad{1e9, 0}, {1e9, 0}}, 65536, 65536)[0], 65536u);
  EXPECT_EQ(divide({RailLoad{1e9, 65536}, {1e9, 0}}, 65536, 65536)[1], 65536u);
  EXPECT_EQ(divide({RailLoad{1e9, 65536}, {2e8, 0}}, 65536, 65536)[0], 65536u);
}

TEST(Divide, WithNoRailTheFirstOneGetsAll) { EXPECT_EQ(divide({}, MiB, 65536)[0], MiB); }

TEST(Divide, AMessageMayHaveAnyLength) {
  for (const std::uint64_t length : {(1ull << 31u) + 1, (1ull << 32u) + 1, (5ull << 30u) + 3}) {
    const RailParts parts = divide({RailLoad{1e9, 0}, {1e9, 5ull << 30u}}, 2 * length, 65536);
    EXPECT_EQ(sum(parts), 2 * length);
    const RailParts equal = divide({RailLoad{1e9, 0}, {1e9, 0}}, length, 65536);
    EXPECT_EQ(sum(equal), length);
    EXPECT_NEAR(static_cast<double>(equal[0]), static_cast<double>(length) / 2, 4096);
  }
}

TEST(Divide, NothingIsLostAndPartsAreAligned) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    RailLoads loads;
    for (RailLoad& load : loads) {
      load.rate = random() % 4 == 0 ? 0 : 1e6 * static_cast<double>(1 + random() % 10000);
      load.waiting_bytes = random() % 3 == 0 ? random() % (256 * MiB) : 0;
    }
    const std::uint64_t length = 1 + random() % (64 * MiB);
    const RailParts parts = divide(loads, length, 65536);
    ASSERT_EQ(sum(parts), length);
    std::size_t odd = 0;
    std::size_t used = 0;
    for (std::size_t k = 0; k < most_rails; ++k) {
      used += parts[k] > 0 ? 1 : 0;
      odd += parts[k] % 4096 != 0 ? 1 : 0;
      if (loads[k].rate == 0) {
        ASSERT_TRUE(parts[k] == 0 || (k == 0 && parts[k] == length));
      }
    }
    EXPECT_LE(odd, 1u);
    for (std::size_t k = 0; used > 1 && k < most_rails; ++k) {
      EXPECT_TRUE(parts[k] == 0 || parts[k] + 4096 >= 65536u);
    }
  }
}

}  // namespace
}  // namespace weir
