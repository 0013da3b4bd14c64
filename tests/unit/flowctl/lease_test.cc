// A lease names one owner, once.
#include "flowctl/shared/lease.h"

#include <gtest/gtest.h>

#include <set>

namespace weir {
namespace {

TEST(Lease, NamesItsOwnerUntilItIsFreed) {
  constexpr ProcessId owner{4'000'000, 0x1'2345'6789};
  const std::uint64_t lease = lease::taken(0, owner);
  EXPECT_FALSE(lease::free(lease));
  EXPECT_EQ(lease::process(lease), owner);
  EXPECT_EQ(lease::process(lease::left(lease)), owner);
  EXPECT_TRUE(lease::is_left(lease::left(lease)));
  EXPECT_FALSE(lease::is_left(lease));
  EXPECT_TRUE(lease::free(lease::freed(lease)));
  EXPECT_TRUE(lease::free(lease::freed(lease::left(lease))));
}

// The holder of an old lease does not take it for one that the same process has now.
TEST(Lease, IsAnotherEachTimeThatItIsTaken) {
  constexpr ProcessId owner{7, 100};
  std::set<std::uint64_t> seen;
  std::uint64_t word = 0;
  for (int i = 0; i < 256; ++i) {
    word = lease::taken(lease::freed(word), owner);
    EXPECT_TRUE(seen.insert(word).second) << i;
    EXPECT_EQ(lease::process(word), owner);
  }
}

TEST(Lease, ExpiresWithItsOwner) {
  const std::uint64_t lease = lease::taken(0, {7, 100});
  const auto alive = [](ProcessId) { return true; };
  const auto dead = [](ProcessId) { return false; };
  EXPECT_FALSE(lease::expired(lease, alive));
  EXPECT_TRUE(lease::expired(lease, dead));
  EXPECT_TRUE(lease::expired(lease::left(lease), alive));
  EXPECT_FALSE(lease::expired(lease::freed(lease), dead));
}

}  // namespace
}  // namespace weir
