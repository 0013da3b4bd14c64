// Server tokens and task queues in every interleaving, with kills: one server at a time, each
// request begun at most once and in order, and its task hears of each exactly once.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "flowctl/shared/server_token.h"
#include "flowctl/shared/task_queue.h"
#include "tests/unit/flowctl/explorer.h"

namespace weir {
namespace {

TEST(ServiceOrder, OwnFirstThenByTurns) {
  ServiceOrder order(5, 11, 3);  // 2 5 8
  for (const auto& round : {std::array{5u, 8u, 2u}, std::array{5u, 8u, 2u}}) {
    order.begin();
    std::uint32_t slot = 0;
    for (const std::uint32_t expected : round) {
      ASSERT_TRUE(order.next(slot));
      EXPECT_EQ(slot, expected);
    }
    EXPECT_FALSE(order.next(slot));
  }
  EXPECT_EQ(server_group(5, 3), 2u);
}

TEST(ServiceOrder, RoundsThatEndEarlyLeaveNobodyOut) {
  ServiceOrder order(0, 6, 1);
  std::array<int, 6> served{};
  for (int round = 0; round < 50; ++round) {
    order.begin();
    std::uint32_t slot = 0;
    for (int i = 0; i < 2 && order.next(slot); ++i) served[slot] += 1;
  }
  EXPECT_EQ(served, (std::array{50, 10, 10, 10, 10, 10}));
}

TEST(ServiceOrder, Alone) {
  ServiceOrder order(3, 4, 4);
  for (int round = 0; round < 3; ++round) {
    order.begin();
    std::uint32_t slot = 0;
    ASSERT_TRUE(order.next(slot));
    EXPECT_EQ(slot, 3u);
    EXPECT_FALSE(order.next(slot));
  }
}

// Process 0 has the queue; 1 and 2 want to serve it.
struct ProxyWorld {
  static constexpr std::uint32_t processes = 3;
  static constexpr std::uint64_t requests = 3;

  struct Memory {
    ExploredWord token;
    ExploredWord lease;  // of the task's slot
    QueueHead<ExploredWord> head;
    std::array<Descriptor<ExploredWord>, 2> ring;
  };
  struct Private {
    ServerToken<ExploredWord> token{shared.token, {}};
    std::uint64_t submitted = 0, retired = 0;  // by the task
    std::uint64_t in_doubt = 0;
    std::uint64_t at = 0;  // of the request it serves
    bool serving = false;
    bool reaping = false;
    bool over = false;
  };

  static inline Memory shared;

  Memory memory;
  Private own[processes];
  bool alive[processes];
  std::uint32_t begun[requests];

  static ProxyWorld start() {
    ProxyWorld world;
    std::memset(static_cast<void*>(&world), 0, sizeof world);
    std::memset(static_cast<void*>(&shared), 0, sizeof shared);
    shared.lease.store(lease::taken(0, {1, 7}));
    for (std::uint32_t p = 0; p < processes; ++p) {
      world.alive[p] = true;
      new (&world.own[p]) Private;
      world.own[p].token = ServerToken<ExploredWord>(shared.token, {p + 1, 7});
    }
    world.memory = shared;
    return world;
  }

  auto alive_check() {
    return [this](ProcessId id) {
      return Replay::access([this, id] { return std::uint64_t{alive[id.pid - 1]}; }) != 0;
    };
  }
  bool dead_server() const {
    return lease::expired(memory.token.value(), [this](ProcessId id) { return alive[id.pid - 1]; });
  }
  // Servers stop when the task has all it wanted, or is dead and its queue was emptied.
  bool done(std::uint32_t p) const {
    if (p == 0) return own[0].retired == requests;
    if (own[p].serving || own[p].token.held()) return false;
    return alive[0] ? done(0) : memory.head.taken.value() == memory.head.submitted.value();
  }

  bool run(std::uint32_t p, Private& me) {
    TaskQueue<ExploredWord> queue(shared.head, shared.ring, shared.lease);
    if (p == 0) {
      if (me.submitted < requests && queue.submit({me.submitted, 0, 0, 0, 0})) {
        me.submitted += 1;
        return true;
      }
      std::uint64_t outcome = 0;
      const Retirement what = queue.retire(outcome, alive_check());
      if (what == Retirement::done && outcome != me.retired + 1) me.over = true;
      if (what == Retirement::stale) me.over = true;
      if (what == Retirement::in_doubt) me.in_doubt += 1;
      if (what == Retirement::done || what == Retirement::in_doubt) me.retired += 1;
      return true;
    }
    if (me.serving) {
      // The token may have gone to another one.
      queue.complete(me.at, me.at + 1);
      me.serving = false;
    } else if (me.token.held()) {
      Request request;
      if (queue.take(lease::taken(0, {p + 1, 7}), request, me.at)) {
        if (request[0] != me.at) me.over = true;
        me.serving = true;
      }
      me.token.give();
    } else if (me.reaping) {
      me.token.reap(alive_check());
      me.reaping = false;
    } else if (shared.head.taken.value() != shared.head.submitted.value() && !me.token.try_take()) {
      // Only then, or generations would count up for ever.
      me.reaping = dead_server();
    }
    return true;
  }

  void observe(const ProxyWorld& before, std::uint32_t p) {
    const std::uint64_t taken = memory.head.taken.value();
    if (taken != before.memory.head.taken.value()) begun[taken - 1] += 1;
    if (taken < before.memory.head.taken.value() ||
        (taken != before.memory.head.taken.value() &&
         lease::process(memory.token.value()).pid != p + 1)) {
      own[p].over = true;
    }
  }

  const char* broken() const {
    for (const Private& process : own) {
      if (process.over) return "served or heard out of order";
    }
    for (const std::uint32_t count : begun) {
      if (count > 1) return "begun twice";
    }
    return nullptr;
  }
  const char* broken_at_end() const {
    const bool killed = !alive[1] || !alive[2];
    if (own[0].in_doubt > 0 && !killed) return "in doubt, and nobody died";
    if (own[0].in_doubt > 2) return "more in doubt than servers died";
    return nullptr;
  }
};

void explore(std::uint32_t kills, Order order) {
  Explorer<ProxyWorld> explorer;
  const auto result = explorer.run(ProxyWorld::start(), kills, order);
  EXPECT_EQ(result.problem, "");
  EXPECT_GT(result.ends, 0u);
  std::printf(
      "%llu states, %llu steps, %llu ends\n", static_cast<unsigned long long>(result.states),
      static_cast<unsigned long long>(result.steps), static_cast<unsigned long long>(result.ends));
}

TEST(ProxyExplore, TwoServers) { explore(0, Order::sequential); }
TEST(ProxyExplore, OneKilled) { explore(1, Order::sequential); }
TEST(ProxyExplore, TwoServersWithStoreBuffers) { explore(0, Order::buffered); }
TEST(ProxyExplore, OneKilledWithStoreBuffers) { explore(1, Order::buffered); }

// The slot's next owner clears up, and gets nothing that it did not ask for.
TEST(TaskQueue, OfADeadTask) {
  QueueHead<ExploredWord> head;
  std::array<Descriptor<ExploredWord>, 4> ring;
  ExploredWord slot_lease;
  std::memset(static_cast<void*>(&head), 0, sizeof head);
  std::memset(static_cast<void*>(&ring), 0, sizeof ring);
  std::uint64_t lease = lease::taken(0, {1, 7});
  slot_lease.store(lease);
  TaskQueue<ExploredWord> queue(head, ring, slot_lease);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(queue.submit({i}));
  EXPECT_FALSE(queue.submit({4}));
  const std::uint64_t server = lease::taken(0, {2, 7});
  const auto alive = [](ProcessId) { return true; };
  Request request;
  std::uint64_t first = 0, at = 0, outcome = 0;
  EXPECT_TRUE(queue.take(server, request, first));
  slot_lease.store(lease::taken(lease::freed(lease), {3, 7}));
  EXPECT_FALSE(queue.submit({9}));
  EXPECT_FALSE(queue.take(server, request, at));  // drops the other three
  EXPECT_EQ(queue.retire(outcome, alive), Retirement::pending);
  queue.complete(first, 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.retire(outcome, alive), Retirement::stale);
  EXPECT_EQ(queue.retire(outcome, alive), Retirement::empty);
  EXPECT_TRUE(queue.submit({9}));
  EXPECT_TRUE(queue.take(server, request, at));
  EXPECT_EQ(request[0], 9u);
}

TEST(TaskQueue, ServerDies) {
  QueueHead<ExploredWord> head;
  std::array<Descriptor<ExploredWord>, 2> ring;
  ExploredWord slot_lease;
  std::memset(static_cast<void*>(&head), 0, sizeof head);
  std::memset(static_cast<void*>(&ring), 0, sizeof ring);
  slot_lease.store(lease::taken(0, {1, 7}));
  TaskQueue<ExploredWord> queue(head, ring, slot_lease);
  EXPECT_TRUE(queue.submit({5}));
  std::uint64_t at = 0, outcome = 0;
  Request request;
  EXPECT_TRUE(queue.take(lease::taken(0, {2, 7}), request, at));
  const auto dead = [](ProcessId id) { return id.pid != 2; };
  EXPECT_EQ(queue.retire(outcome, dead), Retirement::in_doubt);
  EXPECT_EQ(queue.retire(outcome, dead), Retirement::empty);
}

TEST(TaskQueue, NothingGoesBeforeWhatIsNotSettled) {
  QueueHead<ExploredWord> head;
  std::array<Descriptor<ExploredWord>, 4> ring;
  ExploredWord slot_lease;
  std::memset(static_cast<void*>(&head), 0, sizeof head);
  std::memset(static_cast<void*>(&ring), 0, sizeof ring);
  slot_lease.store(lease::taken(0, {1, 7}));
  TaskQueue<ExploredWord> queue(head, ring, slot_lease);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(queue.submit({i}));
  const std::uint64_t first = lease::taken(0, {2, 7});
  const std::uint64_t second = lease::taken(0, {3, 7});
  const auto alive = [](ProcessId) { return true; };
  std::uint64_t at = 0, outcome = 0;
  Request request;
  EXPECT_TRUE(queue.settled(second));
  EXPECT_TRUE(queue.take(first, request, at));
  EXPECT_TRUE(queue.settled(first));  // it keeps its own order
  EXPECT_FALSE(queue.settled(second));
  queue.complete(at, 1);
  EXPECT_TRUE(queue.settled(second));
  // What could not be done holds up everybody until the task has seen to it.
  EXPECT_TRUE(queue.take(second, request, at));
  queue.raise_doubt();
  queue.complete(at, 2);
  EXPECT_FALSE(queue.settled(first));
  EXPECT_FALSE(queue.settled(second));
  EXPECT_EQ(queue.oldest(outcome, alive), Retirement::done);
  queue.drop_oldest();
  queue.clear_doubt();
  EXPECT_FALSE(queue.settled(second));  // the one in doubt is still there
  EXPECT_EQ(queue.retire(outcome, alive), Retirement::done);
  EXPECT_EQ(outcome, 2u);
  queue.clear_doubt();
  EXPECT_TRUE(queue.settled(first));
  EXPECT_TRUE(queue.waits());
}

}  // namespace
}  // namespace weir
