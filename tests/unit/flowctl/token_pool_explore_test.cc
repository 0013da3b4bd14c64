// Every interleaving of take, wait, give, leave, join, reap and kill in small worlds: no token lost
// or returned twice, nothing granted out of line, nobody waits for ever.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "flowctl/shared/token_pool.h"
#include "tests/unit/flowctl/explorer.h"

namespace weir {
namespace {

using Pool = TokenPool<ExploredWord>;

struct Operation {
  enum class Kind : std::uint8_t { join, take, draw, give, leave };
  Kind kind;
  std::uint32_t tokens = 0;
};
constexpr Operation join{Operation::Kind::join};
constexpr Operation give{Operation::Kind::give};
constexpr Operation leave{Operation::Kind::leave};
// Until it is granted.
constexpr Operation take(std::uint32_t tokens) { return {Operation::Kind::take, tokens}; }
// A ticket, granted or not.
constexpr Operation draw(std::uint32_t tokens) { return {Operation::Kind::draw, tokens}; }

using Script = std::vector<Operation>;

template <std::uint32_t process_count, std::uint32_t slot_count>
struct PoolWorld {
  static constexpr std::uint32_t processes = process_count;
  static constexpr std::uint64_t mask = (std::uint64_t{1} << 47) - 1;

  struct Memory {
    PoolHead<ExploredWord> head;
    std::array<PoolSlot<ExploredWord>, slot_count> slots;
  };
  struct Private {
    Pool pool{shared.head, shared.slots, tokens};
    Pool::Ticket ticket;
    std::uint32_t at = 0;
    std::uint32_t held = 0;         // granted, as far as the process knows
    std::uint64_t granted_end = 0;  // the last ticket of these
    std::uint32_t claimed = 0;      // tokens of all tickets that it found granted
    bool reaping = false;           // its next operation
  };
  struct Ticket {
    std::uint32_t process, tokens;
    std::uint64_t end;  // from 0 on
  };

  static inline Memory shared;
  static inline std::uint32_t tokens;
  static inline std::array<std::uint32_t, process_count> limits;  // what each takes them for
  static inline std::array<Script, process_count> scripts;
  static inline std::uint64_t offset;  // of the counters

  Memory memory;
  Private own[processes];
  bool alive[processes];
  // The test's books.
  std::uint32_t ticket_count;
  Ticket tickets[8];
  std::uint64_t returned[processes];
  std::uint32_t owner[slot_count];

  static constexpr auto no_limits() {
    std::array<std::uint32_t, process_count> none;
    none.fill(Pool::most_tokens);
    return none;
  }

  // Each process has its slot already, unless its script begins with a join.
  static PoolWorld start(std::uint32_t pool_tokens, std::array<Script, process_count> what,
                         std::uint64_t begin_at = 0,
                         std::array<std::uint32_t, process_count> limit_of_each = no_limits()) {
    tokens = pool_tokens;
    limits = limit_of_each;
    scripts = std::move(what);
    offset = begin_at & mask;
    PoolWorld world;
    std::memset(static_cast<void*>(&world), 0, sizeof world);
    std::memset(static_cast<void*>(&shared), 0, sizeof shared);
    shared.head.line.store(offset << 17);
    shared.head.granted.store((offset + tokens) & mask);
    shared.head.used.store(slot_count);
    shared.slots[0].returned.store(offset);
    shared.slots[0].drawn.store(offset << 17);
    for (std::uint32_t p = 0; p < processes; ++p) {
      world.alive[p] = true;
      Private& own = world.own[p];
      new (&own) Private;
      if (scripts[p][0].kind == Operation::Kind::join) continue;
      own.pool.join({p + 1, 7}, [](ProcessId) { return true; });
      world.owner[own.pool.slot()] = p;
    }
    world.memory = shared;
    return world;
  }

  bool done(std::uint32_t p) const { return own[p].at == scripts[p].size(); }

  // Else a reaper would only look and change nothing.
  bool any_expired() const {
    for (const auto& slot : memory.slots) {
      if (lease::expired(slot.lease.value(), [this](ProcessId id) { return alive[id.pid - 1]; })) {
        return true;
      }
    }
    return false;
  }

  // A look at a process is a step like others.
  auto alive_check() {
    return [this](ProcessId id) {
      return Replay::access([this, id] { return std::uint64_t{alive[id.pid - 1]}; }) != 0;
    };
  }

  bool run(std::uint32_t p, Private& me) {
    const Operation& operation = scripts[p][me.at];
    switch (operation.kind) {
      case Operation::Kind::join:
        if (me.pool.join({p + 1, 7}, alive_check())) ++me.at;
        return true;
      case Operation::Kind::take:
        if (me.reaping) {
          me.pool.reap(alive_check());
          me.reaping = false;
          return true;
        }
        if (me.pool.waiting() ? !me.pool.recheck(me.ticket, limits[p])
                              : !me.pool.try_take(operation.tokens, me.ticket, limits[p])) {
          me.reaping = any_expired();
          return true;
        }
        hold(me);
        ++me.at;
        return true;
      case Operation::Kind::draw:
        if (me.pool.try_take(operation.tokens, me.ticket, limits[p])) hold(me);
        ++me.at;
        return true;
      case Operation::Kind::give:
        me.pool.give(me.held);
        me.held = 0;
        ++me.at;
        return true;
      case Operation::Kind::leave:
        me.pool.leave();
        me.held = 0;
        ++me.at;
        return true;
    }
    return true;
  }

  static void hold(Private& me) {
    me.held += me.ticket.tokens;
    me.claimed += me.ticket.tokens;
    me.granted_end = (me.ticket.end - offset) & mask;
  }

  static std::uint64_t line_end(const Memory& m) {
    return ((m.head.line.value() >> 17) - offset) & mask;
  }

  void observe(const PoolWorld& before, std::uint32_t p) {
    const std::uint64_t end = line_end(memory);
    const std::uint64_t asked = (end - line_end(before.memory)) & mask;
    if (asked > 0) {
      tickets[ticket_count++] = {p, static_cast<std::uint32_t>(asked), end};
      if (own[p].pool.slot() != (memory.head.line.value() & 0x1ffff) - 1) misnamed_ = true;
    }
    for (std::uint32_t i = 0; i < slot_count; ++i) {
      const auto& now = memory.slots[i];
      const auto& then = before.memory.slots[i];
      returned[owner[i]] += (now.returned.value() - then.returned.value()) & mask;
      if (now.lease.value() != then.lease.value() && !lease::free(now.lease.value())) {
        owner[i] = lease::process(now.lease.value()).pid - 1;
      }
    }
  }
  static inline bool misnamed_ = false;

  // With which the furthest ticket was claimed.
  std::uint64_t furthest_limit() const {
    std::uint64_t end = 0;
    std::uint64_t limit = 0;
    for (std::uint32_t p = 0; p < processes; ++p) {
      if (own[p].granted_end <= end) continue;
      end = own[p].granted_end;
      limit = std::max(limits[p], own[p].ticket.tokens);
    }
    return limit;
  }

  const char* broken() const {
    if (misnamed_) return "the line names another one than who moved it";
    std::uint64_t available = tokens;
    for (const std::uint64_t count : returned) available += count;
    std::uint64_t in_use = 0;
    for (std::uint32_t p = 0; p < processes; ++p) {
      std::uint64_t granted = 0;
      for (std::uint32_t i = 0; i < ticket_count; ++i) {
        if (tickets[i].process == p && tickets[i].end <= available) granted += tickets[i].tokens;
      }
      if (returned[p] > granted) return "returned what was not granted, or twice";
      if (own[p].granted_end > available) return "granted out of line";
      if (alive[p] && own[p].held > granted - returned[p]) return "taken from one that lives";
      in_use += granted - returned[p];
    }
    std::uint64_t claimed = 0;
    for (std::uint32_t p = 0; p < processes; ++p) {
      claimed += std::max<std::uint64_t>(own[p].claimed, returned[p]) - returned[p];
    }
    if (claimed > furthest_limit()) return "more in use than the last to go may have";
    return in_use > tokens ? "more in use than there are" : nullptr;
  }

  // Whoever comes next finds a full pool.
  const char* broken_at_end() {
    shared = memory;
    for (std::uint32_t p = 0; p < processes; ++p) {
      if (alive[p] && own[p].held > 0) own[p].pool.give(own[p].held);
    }
    Pool next(shared.head, shared.slots, tokens);
    const auto nobody_new = [this](ProcessId id) { return alive[id.pid - 1]; };
    for (std::uint32_t i = 0; i < 2 * processes; ++i) next.reap(nobody_new);
    std::uint64_t back = 0;
    for (const auto& slot : shared.slots) {
      back += slot.returned.value();
      const std::uint64_t lease = slot.lease.value();
      if (lease::expired(lease, nobody_new)) return "a slot is lost";
    }
    const std::uint64_t end = shared.head.line.value() >> 17;
    if (((end - back) & mask) != 0) return "tokens are lost";
    if (ticket_count > 0 && tickets[ticket_count - 1].end != ((end - offset) & mask)) {
      return "the line is not where the tickets end";
    }
    return next.asked() == 0 ? nullptr : "the pool says that something is out";
  }
};

template <typename World>
void explore_in(Order order, const World& start, std::uint32_t kills) {
  Explorer<World> explorer;
  const auto result = explorer.run(start, kills, order);
  EXPECT_EQ(result.problem, "");
  EXPECT_GT(result.ends, 0u);
  std::printf(
      "%llu states, %llu steps, %llu ends\n", static_cast<unsigned long long>(result.states),
      static_cast<unsigned long long>(result.steps), static_cast<unsigned long long>(result.ends));
}

// With store buffers, too, which make three times the states. In larger worlds only if
// WEIR_STORE_BUFFERS is set, as by ctest's explore.store_buffers.
template <typename World>
void explore(const World& start, std::uint32_t kills) {
  explore_in(Order::sequential, start, kills);
  explore_in(Order::buffered, start, kills);
}

template <typename World>
void explore_large(const World& start, std::uint32_t kills) {
  explore_in(Order::sequential, start, kills);
  if (std::getenv("WEIR_STORE_BUFFERS") != nullptr) explore_in(Order::buffered, start, kills);
}

TEST(TokenPoolExplore, TwoProcesses) {
  using World = PoolWorld<2, 2>;
  explore(World::start(2, {{{take(2), give, take(1), give}, {take(1), give, take(2), give}}}), 0);
}

TEST(TokenPoolExplore, TwoProcessesOneKilled) {
  using World = PoolWorld<2, 2>;
  explore(World::start(3, {{{take(2), give, take(1), give}, {take(2), give, take(3), give}}}), 1);
}

// One that waits goes on giving back what it holds.
TEST(TokenPoolExplore, TokensOfSeveralTicketsHeld) {
  using World = PoolWorld<2, 2>;
  explore(World::start(3, {{{take(1), draw(2), give, take(2), give}, {take(2), give}}}), 1);
}

TEST(TokenPoolExplore, CountersWrap) {
  using World = PoolWorld<2, 2>;
  explore(World::start(2, {{{take(2), give}, {take(1), give, take(2), give}}}, World::mask - 1), 2);
}

TEST(TokenPoolExplore, ThreeProcesses) {
  using World = PoolWorld<3, 3>;
  explore_large(World::start(2, {{{take(1), give}, {take(2), give}, {take(1), give}}}), 0);
}

TEST(TokenPoolExplore, ThreeProcessesOneKilled) {
  using World = PoolWorld<3, 3>;
  explore_large(World::start(2, {{{take(2), give}, {take(1), give}, {take(1), give}}}), 1);
}

// The second kill may meet who reaps the first one.
TEST(TokenPoolExplore, ReaperKilled) {
  using World = PoolWorld<3, 3>;
  explore_large(World::start(1, {{{take(1), give}, {take(1), give}, {take(1), give}}}), 2);
}

// The third gets the slot of one that was killed or left, while the other may still be reaping it.
TEST(TokenPoolExplore, SlotUsedAgain) {
  using World = PoolWorld<3, 2>;
  explore(World::start(2, {{{take(2), leave}, {take(1), give, leave}, {join, take(2), give}}}), 1);
}

TEST(TokenPoolExplore, SlotUsedAgainAndAgain) {
  using World = PoolWorld<3, 2>;
  explore(World::start(1, {{{draw(1), leave}, {take(1), give, leave}, {join, take(1), leave}}}), 2);
}

// The pool is larger than its processes take it for: a dead one's ticket must not come back before
// those in front of it, which may wait for the limit only.
TEST(TokenPoolExplore, ALimitBelowThePool) {
  using World = PoolWorld<3, 3>;
  explore_large(
      World::start(8, {{{take(1), give}, {take(2), give}, {take(1), give}}}, 0, {2, 2, 2}), 1);
}

TEST(TokenPoolExplore, UnequalLimits) {
  using World = PoolWorld<2, 2>;
  explore(World::start(8, {{{take(3), give, take(3), give}, {take(1), give, take(2), give}}}, 0,
                       {6, 2}),
          1);
}

TEST(TokenPoolExplore, ThreeLimits) {
  using World = PoolWorld<3, 3>;
  explore_large(
      World::start(8, {{{take(2), give}, {take(1), give}, {take(2), give}}}, 0, {4, 1, 2}), 1);
}

TEST(TokenPoolExplore, LeavesWithATicket) {
  using World = PoolWorld<3, 3>;
  explore_large(World::start(2, {{{take(2), give}, {draw(2), leave}, {take(1), give}}}), 0);
}

}  // namespace
}  // namespace weir
