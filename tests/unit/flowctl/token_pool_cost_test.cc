// What a token costs: one exchange where nobody is in the way, and never the heap.
#include <gtest/gtest.h>

#include "flowctl/rate_limiter.h"
#include "flowctl/shared/token_pool.h"
#include "flowctl/thresholds.h"
#include "tests/unit/allocations.h"

namespace weir {
namespace {

class CountingWord {
 public:
  std::uint64_t load() const {
    ++loads;
    return value_;
  }
  void store(std::uint64_t value) {
    ++stores;
    value_ = value;
  }
  bool compare_exchange(std::uint64_t& expected, std::uint64_t wanted) {
    ++exchanges;
    const bool same = value_ == expected;
    (same ? value_ : expected) = same ? wanted : value_;
    return same;
  }

  static inline std::uint64_t loads = 0, stores = 0, exchanges = 0;

 private:
  std::uint64_t value_ = 0;
};

using Pool = TokenPool<CountingWord>;
constexpr auto all_alive = [](ProcessId) { return true; };

PoolHead<CountingWord> head;
PoolSlot<CountingWord> slots[64];

TEST(TokenPoolCost, OneExchange) {
  Pool pool(head, slots, 64);
  ASSERT_TRUE(pool.join({1, 1}, all_alive));
  const std::uint64_t before = allocations();
  const std::uint64_t exchanges = CountingWord::exchanges;
  for (int i = 0; i < 10'000; ++i) {
    Pool::Ticket ticket;
    if (!pool.try_take(4, ticket)) break;
    pool.give(ticket.tokens);
  }
  EXPECT_EQ(CountingWord::exchanges - exchanges, 10'000u);
  EXPECT_EQ(allocations(), before);
}

// Others that take turns with it and are not stopped in the middle cost loads only.
TEST(TokenPoolCost, OneExchangeInTurns) {
  std::vector<Pool> pools;
  for (std::uint32_t p = 0; p < 16; ++p) {
    ASSERT_TRUE(pools.emplace_back(head, slots, 64).join({p + 10, 1}, all_alive));
  }
  const std::uint64_t before = allocations();
  const std::uint64_t exchanges = CountingWord::exchanges;
  for (int i = 0; i < 1'000; ++i) {
    for (Pool& pool : pools) {
      Pool::Ticket ticket;
      if (!pool.try_take(2, ticket)) break;
      pool.give(ticket.tokens);
    }
  }
  EXPECT_EQ(CountingWord::exchanges - exchanges, 16'000u);
  EXPECT_EQ(allocations(), before);
}

TEST(TokenPoolCost, WaitingAndReapingAllocateNothing) {
  Pool a(head, slots, 64), b(head, slots, 64);
  ASSERT_TRUE(a.join({100, 1}, all_alive));
  ASSERT_TRUE(b.join({101, 1}, all_alive));
  const std::uint64_t before = allocations();
  Pool::Ticket ta, tb;
  a.try_take(64, ta);
  const std::uint64_t exchanges = CountingWord::exchanges;
  b.try_take(1, tb);
  for (int i = 0; i < 100; ++i) b.recheck(tb);
  EXPECT_EQ(CountingWord::exchanges - exchanges, 1u);
  b.reap([](ProcessId id) { return id.pid != 100; });
  b.recheck(tb);
  EXPECT_FALSE(b.waiting());
  EXPECT_EQ(allocations(), before);
}

TEST(TokenPoolCost, DecisionsAllocateNothing) {
  const Thresholds thresholds;
  RateLimiter limiter;
  const std::uint64_t before = allocations();
  limiter.injected({5});
  limiter.may_inject({6}, 100);
  thresholds.admission(100, 4, 5, 6, true);
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace weir
