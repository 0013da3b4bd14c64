// Who may send: below the thresholds everybody, then by tokens, or by rate where there is no pool.
#include "flowctl/admission.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace weir {
namespace {

using Policy = Admission::Policy;

struct Node {
  PoolHead<SharedWord> head{};
  std::array<PoolSlot<SharedWord>, 4> slots{};
  std::uint32_t next = 1;

  PoolMember::Pool join() {
    PoolMember::Pool pool(head, slots, PoolMember::most_tokens);
    EXPECT_TRUE(pool.join({next++, 1}, [](ProcessId) { return true; }));
    return pool;
  }
};

Admission::Config counted(std::uint32_t tokens, std::uint64_t bytes_per_token = 0) {
  Admission::Config config;
  config.policy = Policy::always;
  config.tokens = tokens;
  config.cost = {bytes_per_token};
  return config;
}

TEST(Admission, OffLetsAllThroughAndTakesNothing) {
  Node node;
  auto pool = node.join();
  Admission admission({});
  admission.join(&pool);
  EXPECT_FALSE(admission.on());
}

TEST(Admission, APaceHoldsWhateverThePolicy) {
  for (const Policy policy : {Policy::off, Policy::always}) {
    Node node;
    auto pool = node.join();
    Admission::Config config = counted(64);
    config.policy = policy;
    config.bytes_per_second = 1'000'000;
    Admission admission(config);
    if (policy == Policy::always) admission.join(&pool);
    EXPECT_EQ(admission.on(), policy == Policy::always);
    EXPECT_TRUE(admission.limits());
    std::uint16_t tokens = 0;
    const Time begin = Time{} + seconds(1);
    ASSERT_TRUE(admission.admit(begin, 100'000, tokens));
    EXPECT_FALSE(admission.admit(begin, 8, tokens));
    EXPECT_TRUE(admission.waiting());
    EXPECT_FALSE(admission.over(begin + milliseconds(79)));  // 20 ms may be made good
    EXPECT_TRUE(admission.over(begin + milliseconds(80)));
    EXPECT_TRUE(admission.admit(begin + milliseconds(80), 100'000, tokens));
    EXPECT_FALSE(admission.admit(begin + milliseconds(80), 8, tokens));
    admission.limit_pace(0);
    EXPECT_TRUE(admission.waiting()) << "nobody would look for what waits";
    EXPECT_TRUE(admission.over(begin + milliseconds(80)));
    EXPECT_TRUE(admission.admit(begin + milliseconds(80), 8, tokens));
    EXPECT_EQ(admission.counts().rate_waits, 2u);
  }
}

TEST(Admission, TwoProcessesHaveNoMoreThanTheTokensTogether) {
  Node node;
  auto pool_a = node.join(), pool_b = node.join();
  Admission a(counted(3)), b(counted(3));
  a.join(&pool_a);
  b.join(&pool_b);
  std::uint16_t tokens = 0;
  EXPECT_TRUE(a.admit(Time{}, 8, tokens));
  EXPECT_EQ(tokens, 1u);
  EXPECT_TRUE(a.admit(Time{}, 8, tokens));
  EXPECT_TRUE(b.admit(Time{}, 8, tokens));
  EXPECT_FALSE(b.admit(Time{}, 8, tokens));
  EXPECT_TRUE(b.waiting());
  EXPECT_FALSE(b.over(Time{}));
  a.give(1);
  EXPECT_TRUE(b.over(Time{}));
  EXPECT_TRUE(b.admit(Time{}, 8, tokens));
  EXPECT_EQ(tokens, 1u);
  EXPECT_FALSE(b.waiting());
  EXPECT_EQ(a.member().asked(), 3u);
  EXPECT_EQ(b.counts().token_waits, 1u);
}

TEST(Admission, FirstComeFirstServedWhateverTheSize) {
  Node node;
  auto pool_a = node.join(), pool_b = node.join(), pool_c = node.join();
  Admission a(counted(4, 1024)), b(counted(4, 1024)), c(counted(4, 1024));
  a.join(&pool_a);
  b.join(&pool_b);
  c.join(&pool_c);
  std::uint16_t tokens = 0;
  ASSERT_TRUE(a.admit(Time{}, 3 * 1024, tokens));
  EXPECT_EQ(tokens, 3u);
  EXPECT_FALSE(b.admit(Time{}, 2 * 1024, tokens));
  EXPECT_FALSE(c.admit(Time{}, 1, tokens));  // there is one left, but b was first
  a.give(3);
  EXPECT_TRUE(c.admit(Time{}, 1, tokens));
  EXPECT_TRUE(b.admit(Time{}, 2 * 1024, tokens));
}

TEST(Admission, MoreThanThereIsTakesAll) {
  Node node;
  auto pool = node.join();
  Admission admission(counted(4, 1024));
  admission.join(&pool);
  std::uint16_t tokens = 0;
  EXPECT_TRUE(admission.admit(Time{}, 1 << 20, tokens));
  EXPECT_EQ(tokens, 4u);
}

// Its ticket was for another one, which is gone.
TEST(Admission, AnotherRequestTakesWhatWasWaitedFor) {
  Node node;
  auto pool_a = node.join(), pool_b = node.join();
  Admission a(counted(4, 1024)), b(counted(4, 1024));
  a.join(&pool_a);
  b.join(&pool_b);
  std::uint16_t tokens = 0;
  ASSERT_TRUE(a.admit(Time{}, 4096, tokens));
  ASSERT_FALSE(b.admit(Time{}, 3 * 1024, tokens));
  a.give(4);
  EXPECT_TRUE(b.admit(Time{}, 1024, tokens));
  EXPECT_EQ(tokens, 1u);
  EXPECT_EQ(b.member().asked(), 1u);  // what was too much went back
  ASSERT_TRUE(a.admit(Time{}, 3 * 1024, tokens));
  ASSERT_FALSE(b.admit(Time{}, 1024, tokens));
  a.give(3);
  EXPECT_TRUE(b.admit(Time{}, 2 * 1024, tokens));
  EXPECT_EQ(tokens, 2u);
}

TEST(Admission, DeclinedTicketsGoBack) {
  Node node;
  auto pool_a = node.join(), pool_b = node.join();
  Admission a(counted(1)), b(counted(1));
  a.join(&pool_a);
  b.join(&pool_b);
  std::uint16_t tokens = 0;
  ASSERT_TRUE(a.admit(Time{}, 8, tokens));
  ASSERT_FALSE(b.admit(Time{}, 8, tokens));
  b.decline();
  EXPECT_TRUE(b.waiting());  // its ticket is not granted yet, and in line
  a.give(1);
  b.decline();
  EXPECT_FALSE(b.waiting());
  EXPECT_TRUE(a.admit(Time{}, 8, tokens));
}

TEST(Admission, BelowTheThresholdsRequestsGoStraightThrough) {
  Node node;
  auto pool_a = node.join(), pool_b = node.join();
  Admission::Config config = counted(1);
  config.policy = Policy::thresholds;
  config.thresholds.set_nrct(0, 2);
  Admission a(config), b(config);
  a.join(&pool_a);
  b.join(&pool_b);
  std::uint16_t tokens = 0;
  a.set_active(1);
  EXPECT_TRUE(b.passes(8));  // one is below two
  EXPECT_TRUE(b.admit(Time{}, 8, tokens));
  EXPECT_EQ(tokens, 0u);
  EXPECT_EQ(b.counts().counted, 0u);
  a.set_active(2);
  for (int i = 0; i < 16; ++i) {  // by then it has looked again
    tokens = 0;
    ASSERT_TRUE(b.admit(Time{}, 8, tokens));
    if (tokens > 0) break;
  }
  EXPECT_EQ(tokens, 1u);
  EXPECT_FALSE(b.passes(8));
  EXPECT_FALSE(a.admit(Time{}, 8, tokens));
  EXPECT_FALSE(a.passes(4096));  // it would pass the ticket
  b.give(1);
  EXPECT_TRUE(a.over(Time{}));
  a.decline();
  EXPECT_TRUE(b.admit(Time{}, 4096, tokens));  // a class without a threshold
  EXPECT_EQ(b.counts().counted, 1u);
}

TEST(Admission, ManyActiveProcessesAreLimitedWhateverIsUnderWay) {
  Node node;
  auto pool_a = node.join(), pool_b = node.join();
  Admission::Config config = counted(1);
  config.policy = Policy::thresholds;
  config.thresholds.set_cct(0, 2);
  Admission a(config), b(config);
  a.join(&pool_a);
  b.join(&pool_b);
  std::uint16_t tokens = 0;
  EXPECT_TRUE(a.admit(Time{}, 8, tokens));
  EXPECT_EQ(tokens, 0u);
  a.set_active(1);
  b.set_active(1);
  EXPECT_TRUE(b.admit(Time{}, 8, tokens));
  EXPECT_EQ(tokens, 1u);
}

TEST(Admission, WithoutAPoolRequestsKeepTheirDistance) {
  Admission::Config config = counted(1);
  config.rate.set_delay(0, microseconds(5));
  Admission admission(config);
  std::uint16_t tokens = 0;
  EXPECT_TRUE(admission.admit(Time{1000}, 8, tokens));
  EXPECT_FALSE(admission.admit(Time{2000}, 8, tokens));
  EXPECT_TRUE(admission.waiting());
  EXPECT_FALSE(admission.admit(Time{2500}, 4096, tokens));  // nobody overtakes
  EXPECT_FALSE(admission.over(Time{5999}));
  EXPECT_TRUE(admission.over(Time{6000}));
  EXPECT_TRUE(admission.admit(Time{6000}, 8, tokens));
  EXPECT_EQ(tokens, 0u);
  EXPECT_EQ(admission.counts().rate_waits, 1u);
}

// What a process that was killed had is taken back, and those behind it go on.
TEST(Admission, TheDeadMakeWay) {
  Node node;
  auto pool_a = node.join(), pool_b = node.join();
  Admission a(counted(1)), b(counted(1));
  a.join(&pool_a);
  b.join(&pool_b);
  std::uint16_t tokens = 0;
  ASSERT_TRUE(a.admit(Time{}, 8, tokens));
  ASSERT_FALSE(b.admit(Time{}, 8, tokens));
  pool_b.reap([](ProcessId id) { return id.pid != 1; });
  EXPECT_TRUE(b.admit(Time{}, 8, tokens));
}

// It lives, but neither takes nor gives: after a while nobody waits for it any more, until it
// moves.
TEST(PoolMember, WhoStandsStillIsNotWaitedFor) {
  Node node;
  auto pool_a = node.join(), pool_b = node.join();
  PoolMember still, other;
  still.join(&pool_a);
  other.join(&pool_b);
  ASSERT_TRUE(still.ensure(4, 4));
  still.commit();
  ASSERT_FALSE(other.ensure(2, 4));
  EXPECT_EQ(other.excuse(), 0u);  // the first look
  EXPECT_FALSE(other.ensure(2, 4));
  EXPECT_EQ(other.excuse(), 4u);
  EXPECT_TRUE(other.ensure(2, 4));
  other.commit();
  EXPECT_TRUE(other.ensure(2, 4));  // and goes on so
  other.commit();
  EXPECT_FALSE(other.ensure(2, 4));  // within its own limit
  other.give(4);
  EXPECT_TRUE(other.ensure(2, 4));
  other.commit();
  still.give(1);  // it moves, and counts again
  EXPECT_FALSE(other.ensure(2, 4));
  still.give(3);
  EXPECT_TRUE(other.ensure(2, 4));
}

struct ThreeMembers : testing::Test {
  ThreeMembers() {
    a.join(&pool_a);
    b.join(&pool_b);
    c.join(&pool_c);
  }
  Node node;
  PoolMember::Pool pool_a = node.join(), pool_b = node.join(), pool_c = node.join();
  PoolMember a, b, c;
};

// Nor for its ticket: it will not claim it.
TEST_F(ThreeMembers, AStillWaiterIsPassed) {
  ASSERT_TRUE(a.ensure(4, 4));
  a.commit();
  ASSERT_FALSE(b.ensure(4, 4));
  ASSERT_FALSE(c.ensure(1, 4));
  c.excuse();
  EXPECT_EQ(c.excuse(), 8u);
  EXPECT_TRUE(c.ensure(1, 4));
}

// Whose ticket stands behind ours was never in our way.
TEST_F(ThreeMembers, AStillWaiterBehindIsNoReasonToGo) {
  ASSERT_TRUE(a.ensure(4, 4));
  a.commit();
  ASSERT_FALSE(b.ensure(4, 4));
  ASSERT_FALSE(c.ensure(4, 4));
  b.excuse();
  for (int look = 0; look < 3; ++look) {
    a.give(1);  // it moves, and has still something out
    EXPECT_EQ(b.excuse(), 0u);
    EXPECT_FALSE(b.ensure(4, 4));
  }
  a.give(1);
  EXPECT_TRUE(b.ensure(4, 4));
}

// However often the waiter asks in between: only its looks say who stands still.
TEST_F(ThreeMembers, WhoMovedSinceTheLastLookCounts) {
  ASSERT_TRUE(a.ensure(1, 8));  // a does not move any more
  a.commit();
  ASSERT_TRUE(b.ensure(7, 8));
  b.commit();
  ASSERT_FALSE(c.ensure(8, 8));
  c.excuse();
  for (int look = 0; look < 3; ++look) {
    b.give(1);
    EXPECT_EQ(c.excuse(), 1u);  // those of a
    EXPECT_FALSE(c.ensure(8, 8));
    b.give(1);
    EXPECT_FALSE(c.ensure(8, 8));
    EXPECT_EQ(c.excuse(), 1u);
  }
  b.give(1);
  EXPECT_TRUE(c.ensure(8, 8));
}

// What it gives back is in the pool then, and no more excused.
TEST_F(ThreeMembers, WhoWakesAndGivesBackCountsOnce) {
  ASSERT_TRUE(a.ensure(4, 4));
  a.commit();
  ASSERT_FALSE(c.ensure(2, 4));
  c.excuse();
  EXPECT_EQ(c.excuse(), 4u);
  ASSERT_TRUE(c.ensure(2, 4));
  c.commit();
  ASSERT_FALSE(c.ensure(3, 4));
  a.give(4);
  EXPECT_FALSE(c.look(4));  // two of its own are in use
  c.give(1);
  EXPECT_TRUE(c.look(4));
}

// What others have is seen anew in turn, a few at each look.
TEST(PoolMember, BesideManyAFewLooksSeeAll) {
  constexpr std::uint32_t processes = 40;
  PoolHead<SharedWord> head{};
  std::array<PoolSlot<SharedWord>, processes> slots{};
  std::vector<PoolMember::Pool> pools;
  pools.reserve(processes);
  for (std::uint32_t p = 0; p < processes; ++p) {
    pools.emplace_back(head, slots, PoolMember::most_tokens);
    ASSERT_TRUE(pools.back().join({p + 1, 1}, [](ProcessId) { return true; }));
  }
  std::vector<PoolMember> members(processes);
  for (std::uint32_t p = 0; p < processes; ++p) members[p].join(&pools[p]);
  PoolMember& one = members[20];
  for (PoolMember& member : members) {
    if (&member == &one) continue;
    ASSERT_TRUE(member.ensure(1, processes));
    member.commit();
  }
  std::uint64_t asked = 0;
  int looks = 0;
  for (; looks < 20 && asked < processes - 1; ++looks) asked = one.asked_by_others();
  EXPECT_EQ(asked, processes - 1);
  EXPECT_GT(looks, 5);
  EXPECT_LE(looks, 10);
  ASSERT_FALSE(one.ensure(processes, processes));
  for (PoolMember& member : members) {
    if (&member != &one) member.give(1);
  }
  int waits = 0;
  while (waits < 20 && !one.look(processes)) ++waits;
  EXPECT_GT(waits, 5);
  EXPECT_LE(waits, 10);
  EXPECT_EQ(one.asked_by_others(), 0u);
}

// A process that waits, and looks seldom, sees all now and then.
TEST(PoolMember, ALookMaySeeAllBesideMany) {
  constexpr std::uint32_t processes = 40;
  PoolHead<SharedWord> head{};
  std::array<PoolSlot<SharedWord>, processes> slots{};
  const auto join = [&](std::uint32_t p) {
    PoolMember::Pool pool(head, slots, PoolMember::most_tokens);
    EXPECT_TRUE(pool.join({p + 1, 1}, [](ProcessId) { return true; }));
    return pool;
  };
  auto of_one = join(0);
  for (std::uint32_t p = 1; p + 1 < processes; ++p) join(p);
  auto of_last = join(processes - 1);
  PoolMember one, last;
  one.join(&of_one);
  last.join(&of_last);
  ASSERT_TRUE(last.ensure(1, 1));
  last.commit();
  ASSERT_FALSE(one.ensure(1, 1));
  last.give(1);
  one.look_at_all();
  EXPECT_TRUE(one.look(1));
}

// Tokens in use stay within the limit of the process that asked last and has some. One that asked
// earlier, with a smaller limit, goes with what larger limits gave back, even if these took more
// meanwhile.
TEST(PoolMember, LimitsMayDiffer) {
  Node node;
  auto pool_a = node.join(), pool_b = node.join();
  PoolMember large, small;
  large.join(&pool_a);
  small.join(&pool_b);
  ASSERT_TRUE(large.ensure(6, 8));
  EXPECT_EQ(large.commit(), 6u);
  EXPECT_FALSE(small.ensure(1, 4));  // six are in use
  EXPECT_EQ(small.asked_by_others(), 6u);
  EXPECT_FALSE(large.ensure(2, 8));  // with it and the one in front of it, nine would be in use
  large.give(3);
  EXPECT_TRUE(large.ensure(2, 8));
  EXPECT_EQ(large.commit(), 2u);
  EXPECT_TRUE(small.ensure(1, 4));  // though five are in use
  EXPECT_EQ(small.commit(), 1u);
  EXPECT_FALSE(small.ensure(1, 4));  // it asks last now
  large.give(3);
  EXPECT_TRUE(small.ensure(1, 4));
  EXPECT_EQ(small.commit(), 1u);
  EXPECT_EQ(large.asked_by_others(), 2u);
}

}  // namespace
}  // namespace weir
