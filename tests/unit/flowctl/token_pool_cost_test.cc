// What a token costs: one exchange where nobody is in the way, and never the heap.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "flowctl/rate_limiter.h"
#include "flowctl/shared/pool_member.h"
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

// As many members of a pool.
class Members {
 public:
  explicit Members(std::uint32_t processes) : slots_(new PoolSlot<CountingWord>[processes]) {
    pools_.reserve(processes);
    for (std::uint32_t p = 0; p < processes; ++p) {
      Pool& pool = pools_.emplace_back(head_, std::span(slots_.get(), processes), most_tokens);
      EXPECT_TRUE(pool.join({p + 1, 1}, all_alive));
    }
    for (Pool& pool : pools_) {
      members_.push_back(std::make_unique<PoolMemberOn<CountingWord, 256>>());
      members_.back()->join(&pool);
    }
  }
  PoolMemberOn<CountingWord, 256>& operator[](std::size_t i) { return *members_[i]; }

 private:
  static constexpr std::uint32_t most_tokens = Pool::most_tokens;
  std::unique_ptr<PoolSlot<CountingWord>[]> slots_;
  PoolHead<CountingWord> head_;
  std::vector<Pool> pools_;
  std::vector<std::unique_ptr<PoolMemberOn<CountingWord, 256>>> members_;
};

constexpr std::uint64_t repeats = 1000;

// What a chunk reads of the node's memory: its end asks what others have, gives back, and the next
// one takes, with all that the limit allows under way.
std::uint64_t loads_of_a_chunk(std::uint32_t processes) {
  Members members(processes);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(members[0].ensure(32, 128));
    members[0].commit();
  }
  const std::uint64_t before = CountingWord::loads;
  for (std::uint64_t i = 0; i < repeats; ++i) {
    members[0].asked_by_others();
    members[0].give(32);
    EXPECT_TRUE(members[0].ensure(32, 128));
    members[0].commit();
  }
  return (CountingWord::loads - before) / repeats;
}

// What a look for the tokens that another process has reads of the node's memory.
std::uint64_t loads_of_a_waiter(std::uint32_t processes) {
  Members members(processes);
  EXPECT_TRUE(members[1].ensure(32, 32));
  members[1].commit();
  EXPECT_FALSE(members[0].ensure(32, 32));
  const std::uint64_t before = CountingWord::loads;
  for (std::uint64_t i = 0; i < repeats; ++i) EXPECT_FALSE(members[0].look(32));
  return (CountingWord::loads - before) / repeats;
}

TEST(TokenPoolCost, AProcessCostsTheSameBesideMany) {
  const std::uint64_t own_turn = 2;  // its own slot is not read when it would be its turn
  for (const auto loads : {loads_of_a_chunk, loads_of_a_waiter}) {
    const std::uint64_t few = loads(8);
    EXPECT_LE(loads(128), few + own_turn);
    EXPECT_LE(loads(256), few + own_turn);
    std::printf("%llu loads\n", static_cast<unsigned long long>(few));
  }
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
