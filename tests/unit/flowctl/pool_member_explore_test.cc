// Every interleaving of members of a pool with unequal limits, which look for others that stand
// still between their own attempts: only those are passed, nobody has more than its limit with what
// it has excused, and nobody waits for ever for one that lives.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "flowctl/shared/pool_member.h"
#include "tests/unit/flowctl/explorer.h"

namespace weir {
namespace {

// Takes tokens (and looks for others after each attempt that fails), or gives them back.
struct Operation {
  enum class Kind : std::uint8_t { take, give };
  Kind kind;
  std::uint32_t tokens;
};
constexpr Operation take(std::uint32_t tokens) { return {Operation::Kind::take, tokens}; }
constexpr Operation give(std::uint32_t tokens) { return {Operation::Kind::give, tokens}; }

struct Script {
  std::uint32_t limit;
  bool looks;                         // for others that stand still
  std::vector<Operation> operations;  // at its end the process stands still for ever
};

template <std::uint32_t process_count>
struct MemberWorld {
  static constexpr std::uint32_t processes = process_count;
  static constexpr std::uint32_t pool_tokens = 64;
  // What does not move from one look to the next has surely had this many looks to end.
  static constexpr std::uint8_t looks_needed = 2;

  using Member = PoolMemberOn<ExploredWord, process_count>;
  using Pool = typename Member::Pool;

  struct Memory {
    PoolHead<ExploredWord> head;
    std::array<PoolSlot<ExploredWord>, process_count> slots;
  };
  struct Private {
    Pool pool{shared.head, shared.slots, pool_tokens};
    Member member;
    std::uint32_t at = 0;
    bool looks = false;   // its next operation
    bool looked = false;  // its last operation
    bool parity = false;  // of operations so far
  };

  static inline Memory shared;
  static inline Pool running{shared.head, shared.slots, pool_tokens};  // members point to it
  static inline std::array<Script, process_count> scripts;

  Memory memory;
  Private own[processes];
  bool alive[processes];
  // The test's books.
  bool begins[processes];                    // its next step is the first of an operation
  std::uint8_t looks[processes][processes];  // by the first, since the second moved
  std::uint64_t passable[processes];         // of the operation under way
  std::uint64_t ticket_end[processes];
  std::uint64_t furthest_end;  // of claimed tickets
  std::uint64_t furthest_allows;
  std::uint32_t most_out;

  static MemberWorld start(std::array<Script, process_count> what) {
    scripts = std::move(what);
    MemberWorld world;
    std::memset(static_cast<void*>(&world), 0, sizeof world);
    std::memset(static_cast<void*>(&shared), 0, sizeof shared);
    for (std::uint32_t p = 0; p < processes; ++p) {
      world.alive[p] = world.begins[p] = true;
      Private& own = world.own[p];
      new (&own) Private;
      own.pool.join({p + 1, 7}, [](ProcessId) { return true; });
      own.member.join(&running);
    }
    world.memory = shared;
    return world;
  }

  bool done(std::uint32_t p) const { return own[p].at == scripts[p].operations.size(); }

  bool run(std::uint32_t p, Private& me) {
    const Operation& operation = scripts[p].operations[me.at];
    running = me.pool;
    me.looked = std::exchange(me.looks, false);
    if (me.looked) {
      me.member.excuse();
    } else if (operation.kind == Operation::Kind::give) {
      me.member.give(operation.tokens);
      ++me.at;
    } else if (me.member.ensure(operation.tokens, scripts[p].limit)) {
      me.member.commit();
      ++me.at;
    } else {
      me.looks = scripts[p].looks;
    }
    me.pool = running;
    me.parity = !me.parity;
    return true;
  }

  static std::uint64_t out_of(const PoolSlot<ExploredWord>& slot) {
    return (slot.drawn.value() >> 17) - slot.returned.value();
  }

  void observe(const MemberWorld& before, std::uint32_t p) {
    if (before.begins[p]) {
      passable[p] = 0;
      for (std::uint32_t i = 0; i < processes; ++i) {
        if (looks[p][i] >= looks_needed) passable[p] += out_of(before.memory.slots[i]);
      }
    }
    if (memory.head.line.value() != before.memory.head.line.value()) {
      ticket_end[p] = memory.head.line.value() >> 17;
    }
    for (std::uint32_t i = 0; i < processes; ++i) {
      const auto& now = memory.slots[i];
      const auto& then = before.memory.slots[i];
      if (now.drawn.value() == then.drawn.value() &&
          now.returned.value() == then.returned.value()) {
        continue;
      }
      for (auto& of_one : looks) of_one[i] = 0;
    }
    begins[p] = own[p].parity != before.own[p].parity;
    if (!begins[p]) return;
    if (own[p].looked) {
      for (std::uint8_t& count : looks[p]) count = std::min<std::uint8_t>(count + 1, looks_needed);
    }
    const std::uint32_t at = before.own[p].at;
    if (own[p].at == at || scripts[p].operations[at].kind != Operation::Kind::take) return;
    if (ticket_end[p] > furthest_end) {
      furthest_end = ticket_end[p];
      furthest_allows = std::max(scripts[p].limit, scripts[p].operations[at].tokens) + passable[p];
    }
  }

  const char* broken() const {
    std::uint64_t out = 0;
    for (const Private& one : own) out += one.member.out();
    return out > furthest_allows ? "more is out than the last to go may have" : nullptr;
  }
  const char* broken_at_end() { return nullptr; }
};

template <std::uint32_t processes>
void explore(std::array<Script, processes> scripts) {
  using World = MemberWorld<processes>;
  Explorer<World> explorer;
  const auto result = explorer.run(World::start(std::move(scripts)), 0);
  EXPECT_EQ(result.problem, "");
  EXPECT_GT(result.ends, 0u);
  std::printf("%llu states, %llu ends\n", static_cast<unsigned long long>(result.states),
              static_cast<unsigned long long>(result.ends));
}

TEST(PoolMemberExplore, OneStandsStill) {
  explore<2>({{{2, true, {take(2)}}, {2, true, {take(1), give(1), take(2), give(2)}}}});
}

TEST(PoolMemberExplore, OneWakesLate) {
  explore<2>(
      {{{3, true, {take(2), give(1), give(1)}}, {2, true, {take(2), give(1), take(1), give(2)}}}});
}

}  // namespace
}  // namespace weir
