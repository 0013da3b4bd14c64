// The pool as one process after the other sees it.
#include "flowctl/shared/token_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>

#include "flowctl/shared/shared_word.h"
#include "tools/sim/random.h"

namespace weir {
namespace {

using Pool = TokenPool<SharedWord>;

struct Node {
  PoolHead<SharedWord> head{};
  std::array<PoolSlot<SharedWord>, 4> slots{};
  std::set<std::uint32_t> dead;

  auto alive() {
    return [this](ProcessId id) { return !dead.contains(id.pid); };
  }
  Pool process(std::uint32_t pid, std::uint32_t tokens) {
    Pool pool(head, slots, tokens);
    EXPECT_TRUE(pool.join({pid, 100}, alive()));
    return pool;
  }
};

TEST(TokenCost, FixedOrBySize) {
  EXPECT_EQ(TokenCost{}.tokens(1 << 20), 1u);
  const TokenCost by_size{4096};
  EXPECT_EQ(by_size.tokens(0), 1u);
  EXPECT_EQ(by_size.tokens(4096), 1u);
  EXPECT_EQ(by_size.tokens(4097), 2u);
  EXPECT_EQ(TokenCost{1}.tokens(UINT64_MAX), UINT32_MAX);
}

TEST(TokenPool, FirstComeFirstServed) {
  Node node;
  Pool a = node.process(1, 4), b = node.process(2, 4), c = node.process(3, 4);
  Pool::Ticket ta, tb, tc;
  EXPECT_TRUE(a.try_take(3, ta));
  EXPECT_FALSE(b.try_take(2, tb));
  EXPECT_FALSE(c.try_take(1, tc));  // it would fit, but b was first
  EXPECT_FALSE(c.recheck(tc));
  EXPECT_EQ(a.asked(), 6u);
  a.give(1);
  EXPECT_FALSE(c.recheck(tc));
  EXPECT_TRUE(b.recheck(tb));
  a.give(1);
  EXPECT_TRUE(c.recheck(tc));
  a.give(1);
  b.give(2);
  c.give(1);
  EXPECT_EQ(a.asked(), 0u);
}

TEST(TokenPool, AGrantWaitsForItsOwner) {
  Node node;
  Pool a = node.process(1, 2), b = node.process(2, 2), c = node.process(3, 2);
  Pool::Ticket ta, tb, tc;
  EXPECT_TRUE(a.try_take(2, ta));
  EXPECT_FALSE(b.try_take(1, tb));
  EXPECT_FALSE(c.try_take(1, tc));
  a.give(2);
  // b computes; those behind it do not wait for it to look.
  EXPECT_TRUE(c.recheck(tc));
  c.give(1);
  EXPECT_TRUE(b.recheck(tb));
}

TEST(TokenPool, LargeOnesAreClipped) {
  Node node;
  Pool a = node.process(1, 4);
  Pool::Ticket ticket;
  EXPECT_TRUE(a.try_take(1000, ticket));
  EXPECT_EQ(ticket.tokens, 4u);
  a.give(ticket.tokens);
  EXPECT_TRUE(a.try_take(0, ticket));
  EXPECT_EQ(ticket.tokens, 1u);
  EXPECT_EQ(Pool(node.head, node.slots, 1 << 20).tokens(), Pool::most_tokens);
}

TEST(TokenPool, TheDeadAreReaped) {
  Node node;
  Pool a = node.process(1, 4), b = node.process(2, 4), c = node.process(3, 4);
  Pool::Ticket ta, tb, tc;
  EXPECT_TRUE(a.try_take(3, ta));
  EXPECT_FALSE(b.try_take(4, tb));
  EXPECT_FALSE(c.try_take(1, tc));
  EXPECT_EQ(c.reap(node.alive()), 0u);
  node.dead = {1, 2};
  EXPECT_EQ(c.reap(node.alive()), 7u);  // a's tokens, and with them it is b's turn
  EXPECT_EQ(c.reap(node.alive()), 0u);
  EXPECT_TRUE(c.recheck(tc));
  EXPECT_EQ(c.asked(), 1u);
}

TEST(TokenPool, ADeadTicketKeepsItsPlace) {
  Node node;
  Pool a = node.process(1, 4), b = node.process(2, 4), c = node.process(3, 4);
  Pool::Ticket ta, tb, tc;
  EXPECT_TRUE(a.try_take(4, ta));
  EXPECT_FALSE(b.try_take(2, tb));
  EXPECT_FALSE(c.try_take(4, tc));
  node.dead = {2};
  EXPECT_EQ(c.reap(node.alive()), 0u);
  a.give(2);
  EXPECT_EQ(c.reap(node.alive()), 0u);  // all that was asked for before it has to be back
  EXPECT_FALSE(c.recheck(tc));
  a.give(2);
  EXPECT_EQ(c.reap(node.alive()), 2u);
  EXPECT_TRUE(c.recheck(tc));
}

TEST(TokenPool, SlotsAreUsedAgain) {
  Node node;
  std::array<std::unique_ptr<Pool>, 4> pools;
  for (std::uint32_t i = 0; i < 4; ++i) pools[i] = std::make_unique<Pool>(node.process(i + 1, 8));
  Pool late(node.head, node.slots, 8);
  EXPECT_FALSE(late.join({9, 100}, node.alive()));
  Pool::Ticket ticket;
  EXPECT_TRUE(pools[2]->try_take(5, ticket));
  node.dead = {3};
  EXPECT_TRUE(late.join({9, 100}, node.alive()));
  EXPECT_EQ(late.slot(), 2u);
  EXPECT_EQ(late.asked(), 0u);
  pools[0]->leave();
  Pool later(node.head, node.slots, 8);
  EXPECT_TRUE(later.join({1, 100}, node.alive()));
  EXPECT_EQ(later.slot(), 0u);
}

TEST(TokenPool, LeavingWithTokens) {
  Node node;
  Pool a = node.process(1, 4), b = node.process(2, 4);
  Pool::Ticket ta, tb;
  EXPECT_TRUE(a.try_take(4, ta));
  a.leave();
  EXPECT_FALSE(b.try_take(1, tb));
  EXPECT_EQ(b.reap(node.alive()), 4u);
  EXPECT_TRUE(b.recheck(tb));
}

// Part of the last ticket's tokens is back, so it did not wait when its owner died.
TEST(TokenPool, TheDeadWithPartOfATicket) {
  Node node;
  Pool a = node.process(1, 8), b = node.process(2, 8);
  Pool::Ticket ta, tb;
  ASSERT_TRUE(a.try_take(4, ta));
  ASSERT_TRUE(b.try_take(4, tb));
  b.give(3);
  node.dead = {2};
  EXPECT_EQ(a.reap(node.alive()), 1u);
  EXPECT_EQ(a.asked(), 4u);
}

// Whatever another process wrote into the memory: nothing is looked for outside of it.
TEST(TokenPool, DamagedWordsLeadNowhere) {
  Node node;
  Pool a = node.process(1, 8);
  node.head.used.store(UINT64_MAX);
  node.head.line.store(UINT64_MAX);
  Pool::Ticket ticket;
  a.try_take(4, ticket);
  a.reap(node.alive());
  a.load();
  EXPECT_EQ(a.holders(), node.slots.size());
}

TEST(TokenPool, KnowsWhatIsUnderWay) {
  Node node;
  Pool a = node.process(1, 4), b = node.process(2, 4), c = node.process(3, 4);
  a.set_active(3);
  c.set_active(2);
  EXPECT_EQ(b.load().active_cores, 2u);
  EXPECT_EQ(b.load().active_node_msgs, 5u);
  c.leave();
  EXPECT_EQ(b.load().active_cores, 1u);
}

TEST(TokenPool, WhoHasADeadOnesSlotHasNothingUnderWay) {
  Node node;
  Pool a = node.process(1, 4), b = node.process(2, 4);
  b.set_active(3);
  node.dead.insert(2);
  Pool c = node.process(3, 4);
  ASSERT_EQ(c.slot(), b.slot());
  EXPECT_EQ(a.load().active_cores, 0u);
  EXPECT_EQ(a.load().active_node_msgs, 0u);
}

// Any order of calls, against a model that is a list.
TEST(TokenPool, LikeAList) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    sim::Random random(seed);
    Node node;
    const std::uint32_t size = random.between(1, 12);
    std::vector<Pool> pools;
    for (std::uint32_t p = 0; p < 4; ++p) pools.push_back(node.process(p + 1, size));
    struct Entry {
      std::uint32_t process, tokens;
      bool granted, returned;
    };
    std::vector<Entry> line;
    std::array<Pool::Ticket, 4> tickets;
    std::uint32_t granted_up_to = 0, in_use = 0;
    const auto advance = [&] {
      while (granted_up_to < line.size() && in_use + line[granted_up_to].tokens <= size) {
        in_use += line[granted_up_to++].tokens;
      }
    };
    for (int step = 0; step < 500; ++step) {
      const std::uint32_t p = random.between(0, 3);
      std::uint32_t at = 0;
      if (pools[p].waiting()) {
        while (line[at].process != p || line[at].granted) ++at;
        ASSERT_EQ(line[at].granted = pools[p].recheck(tickets[p]), at < granted_up_to);
      } else if (random.chance(500)) {
        const std::uint32_t tokens = std::min(random.between(1, 14), size);
        at = static_cast<std::uint32_t>(line.size());
        line.push_back({p, tokens, false, false});
        advance();
        ASSERT_EQ(line[at].granted = pools[p].try_take(tokens, tickets[p]), at < granted_up_to);
      } else {
        while (at < line.size() &&
               (line[at].process != p || !line[at].granted || line[at].returned)) {
          ++at;
        }
        if (at == line.size()) continue;
        line[at].returned = true;
        pools[p].give(line[at].tokens);
        in_use -= line[at].tokens;
        advance();
      }
    }
  }
}

}  // namespace
}  // namespace weir
