// What processes of a node share: each order that is needed, and no run of theirs in a weak memory
// that goes wrong. Processes may be killed before any access.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstddef>

#include "flowctl/shared/gate.h"
#include "flowctl/shared/proxy.h"
#include "flowctl/shared/token_pool.h"
#include "tests/unit/order/worlds.h"

namespace weir {
namespace {

using Slot = PoolSlot<SharedWord>;
using Pool = TokenPool<SharedWord>;

weak::Memory& memory() { return *weak::Memory::current; }
ProcessId process(std::size_t thread) { return {static_cast<std::uint32_t>(thread + 1), 7}; }
constexpr auto alive = [](ProcessId id) { return memory().alive(id.pid - 1); };

// ---- the pool ----

struct Tokens {
  PoolHead<SharedWord> head{};
  std::array<Slot, 3> slots{};
  std::array<Pool, 3> pools{Pool{head, slots, 1}, {head, slots, 1}, {head, slots, 1}};
  Plain guarded;  // by the only token

  static auto names() {
    constexpr std::size_t head = offsetof(Tokens, head), slots = offsetof(Tokens, slots);
    return std::array<Named, 7>{{{head + offsetof(PoolHead<SharedWord>, line), 8, "line"},
                                 {head + offsetof(PoolHead<SharedWord>, granted), 8, "granted"},
                                 {slots + offsetof(Slot, lease), 8, "lease"},
                                 {slots + offsetof(Slot, plan), 8, "plan"},
                                 {slots + offsetof(Slot, drawn), 8, "drawn"},
                                 {slots + offsetof(Slot, witness), 8, "witness"},
                                 {slots + offsetof(Slot, returned), 8, "returned"}}};
  }
  void join(std::size_t processes) {
    for (std::size_t t = 0; t < processes; ++t) pools[t].join(process(t), alive);
  }
  void use(Pool& pool) {
    guarded.write();
    pool.give(1);
  }
  const char* broken() {
    Pool pool(head, slots, 1);
    for (std::size_t i = 0; i < 2 * slots.size(); ++i) pool.reap(alive);
    for (Slot& slot : slots) {
      if (!lease::free(slot.lease.load())) return "a slot is lost";
    }
    return pool.asked() == 0 ? nullptr : "tokens are lost";
  }
};

// Two take the token in turn.
struct Taking : Tokens {
  static constexpr std::size_t threads = 2;
  Taking() { join(2); }
  void run(std::size_t t) {
    Pool::Ticket ticket;
    bool granted = pools[t].try_take(1, ticket);
    while (!granted) {
      memory().pause();
      granted = pools[t].recheck(ticket);
    }
    use(pools[t]);
  }
};

TEST(NodeOrders, OfTokens) {
  EXPECT_EQ(needed_orders<Taking>(),
            "returned: load acquire\n"
            "returned: store release\n");
}

// One looks, and tells another that it may go.
struct Looking : Tokens {
  static constexpr std::size_t threads = 3;
  std::array<Pool::Ticket, 3> tickets;
  Looking() {
    join(3);
    for (const std::size_t t : {0, 2, 1}) pools[t].try_take(1, tickets[t]);
  }
  void run(std::size_t t) {
    if (t == 0) return use(pools[0]);
    while (!pools[t].recheck(tickets[t])) {
      if (t == 1 || !memory().pause()) break;
    }
    if (t == 2 && !pools[2].waiting()) guarded.write();
  }
  const char* broken() { return nullptr; }
};

TEST(NodeOrders, OfTokensThatAnotherOneCounted) {
  EXPECT_EQ(needed_orders<Looking>(),
            "granted: load acquire\n"
            "granted: store release\n"
            "returned: load acquire\n"
            "returned: store release\n");
}

// The first may be killed before any access; the second reaps it.
struct Dying : Tokens {
  static constexpr std::size_t threads = 2, mortals = 1;
  Dying() { join(2); }
  void run(std::size_t t) {
    Pool::Ticket ticket;
    bool granted = pools[t].try_take(1, ticket);
    while (!granted) {
      memory().pause();
      if (t == 1) pools[t].reap(alive);
      granted = pools[t].recheck(ticket);
    }
    use(pools[t]);
  }
};

// Exchanges of `line` connect what one wrote before it was killed to who goes on from there.
TEST(NodeOrders, OfTokensOfTheKilled) {
  EXPECT_EQ(needed_orders<Dying>(1),
            "line: load acquire\n"
            "line: exchange acquire\n"
            "line: exchange release\n"
            "returned: load acquire\n"
            "returned: store release\n");
}

// A third one reaps what it was killed at, while the second one's ticket moves the line on.
struct Reaping : Tokens {
  static constexpr std::size_t threads = 3, mortals = 1;
  Reaping() { join(3); }
  void run(std::size_t t) {
    Pool::Ticket ticket;
    if (t < 2 && pools[t].try_take(1, ticket)) return use(pools[t]);
    if (t == 2 && !alive(process(0))) pools[2].reap(alive);
  }
};

TEST(NodeOrders, OfTokensOfTheKilledForAThird) {
  EXPECT_EQ(needed_orders<Reaping>(1),
            "line: load acquire\n"
            "line: exchange acquire\n"
            "line: exchange release\n"
            "returned: load acquire\n"
            "returned: store release\n"
            "returned: exchange release\n");
}

// The slot of one that left, or was killed, is another one's.
struct Following : Tokens {
  static constexpr std::size_t threads = 2, mortals = 1;
  Following() {
    for (Pool& pool : pools) pool = Pool(head, std::span(slots).first(1), 1);
    join(1);
  }
  void run(std::size_t t) {
    Pool& pool = pools[t];
    while (!pool.joined() && !pool.join(process(t), alive)) memory().pause();
    Pool::Ticket ticket;
    if (pool.try_take(1, ticket)) use(pool);
    pool.leave();
  }
};

TEST(NodeOrders, OfASlotThatIsUsedAgain) {
  EXPECT_EQ(needed_orders<Following>(1), "lease: exchange release\n");
}

// ---- the proxy ----

struct Served {
  static constexpr std::size_t threads = 2, mortals = 1;
  static constexpr std::uint32_t cell_bytes = 32;
  static auto names() {
    constexpr std::size_t queue = offsetof(Served, queues), ring = queue + offsetof(ProxyQueue, ring);
    using Head = QueueHead<SharedWord>;
    using Entry = Descriptor<SharedWord>;
    return std::array<Named, 9>{{{offsetof(Served, tokens), 8, "token"},
                                 {queue + offsetof(Head, submitted), 8, "submitted"},
                                 {queue + offsetof(Head, retired), 8, "retired"},
                                 {queue + offsetof(Head, taken), 8, "taken"},
                                 {queue + offsetof(Head, doubt), 8, "doubt"},
                                 {ring + offsetof(Entry, owner), 8, "owner"},
                                 {ring + offsetof(Entry, server), 8, "server"},
                                 {ring + offsetof(Entry, outcome), 8, "outcome"},
                                 {ring + offsetof(Entry, request), 40, "request"}}};
  }
  std::array<SharedWord, 1> tokens{};
  std::array<Slot, 1> slots{};
  std::array<ProxyQueue, 1> queues{};
  std::array<std::byte, proxy_depth * cell_bytes> cells{};
  std::array<Plain, proxy_depth> used;  // the cells
  Plain wire;                           // who sends what the task asks for
  std::array<Proxy, threads> proxies;

  explicit Served(std::size_t asker) {
    slots[0].lease.store(lease::taken(0, process(asker)));
    for (std::size_t t = 0; t < threads; ++t) {
      proxies[t].join({.tokens = tokens,
                       .slots = slots,
                       .queues = queues,
                       .cells = cells.data(),
                       .cell_bytes = cell_bytes,
                       .tasks = 1},
                      0, process(t));
    }
  }
  void submit(Proxy& proxy) {
    const std::byte bytes[8]{};
    used[static_cast<std::size_t>(std::countr_zero(proxy.free_cells()))].write();
    proxy.submit({1, 2}, 10 + proxy.next_number(), 0, bytes, sizeof bytes);
  }
  void serve_one(Proxy& proxy, std::uint64_t outcome) {
    Proxy::Work work;
    if (!proxy.take(0, work)) return;
    if (work.key != 10 + work.at) memory().report("another request than was asked for");
    used[static_cast<std::size_t>(work.frame - cells.data()) / cell_bytes].read();
    wire.write();
    proxy.complete(0, work.at, outcome);
  }
  const char* broken() { return nullptr; }
};

// One asks, hears the outcome, and uses the cell again. The server may be killed.
struct Asking : Served {
  Asking() : Served(1) { proxies[0].try_serve(); }
  void run(std::size_t t) {
    Proxy& proxy = proxies[t];
    if (t == 0) return serve_one(proxy, Proxy::refused), serve_one(proxy, Proxy::sent);
    submit(proxy);
    std::uint64_t outcome = 0;
    for (bool others = true; proxy.oldest(outcome, alive) == Retirement::pending;) {
      if (!others) return;  // the server has gone before
      others = memory().pause();
    }
    if (outcome != Proxy::sent) wire.write();  // by itself
    proxy.drop_oldest(outcome);
    proxy.clear_doubt();
    submit(proxy);
  }
};

TEST(NodeOrders, OfWhatIsAskedOfAServer) {
  EXPECT_EQ(needed_orders<Asking>(1),
            "submitted: load acquire\n"
            "submitted: store release\n"
            "outcome: load acquire\n"
            "outcome: store release\n");
}

// Two serve in turn what was asked for. The first may be killed.
struct Succeeding : Served {
  Succeeding() : Served(2) {
    for (int i = 0; i < 2; ++i) submit(proxies[1]);
  }
  void run(std::size_t t) {
    Proxy& proxy = proxies[t];
    while (!proxy.try_serve()) {
      if (t == 0 || alive(process(0))) return;
      proxy.reap(process(0));
    }
    serve_one(proxy, Proxy::sent);
    proxy.give();
  }
};

TEST(NodeOrders, OfServersInTurn) {
  EXPECT_EQ(needed_orders<Succeeding>(1), "token: store release\n");
}

// ---- a segment that one removes while another comes ----

template <bool comes>
struct Removing {
  static constexpr std::size_t threads = 2;
  static auto names() {
    return std::array<Named, 2>{{{offsetof(Removing, gate), 8, "gate"},
                                 {offsetof(Removing, slots), 2 * sizeof(Slot), "lease"}}};
  }
  PoolHead<SharedWord> head{};
  std::array<Slot, threads> slots{};
  SharedWord gate{};
  Atomic<int> names_taken{0};  // a file's, in the kernel
  Pool pools[2] = {{head, slots, 1}, {head, slots, 1}};

  Removing() {
    pools[0].join(process(0), alive);
    if (!comes) pools[1].join(process(1), alive);
  }
  void run(std::size_t t) {
    if (!pools[t].joined()) {
      pools[t].join(process(t), alive);
      if (lease::free(look_at(gate))) {
        memory().book(0) = 1;  // it is in, and stays
        return memory().wait_for_all_others();
      }
    }
    pools[t].leave();
    remove_if_empty<SharedWord>(
        gate, slots, process(t), alive,
        [this] { return names_taken.fetch_add(0, std::memory_order_relaxed) == 0; },
        [this] {
          names_taken.fetch_add(1, std::memory_order_relaxed);
          return true;
        });
  }
  const char* broken() {
    const bool is_gone = names_taken.load() > 0;
    if (memory().book(0) == 1) return is_gone ? "in a segment without a name" : nullptr;
    return is_gone ? nullptr : "nobody removes it";
  }
};

// That they look by exchanges is enough.
TEST(NodeOrders, OfComingAndRemoving) {
  EXPECT_EQ(needed_orders<Removing<true>>(), "");
  EXPECT_EQ(needed_orders<Removing<false>>(), "");
}

}  // namespace
}  // namespace weir
