// What processes of a node share, used by threads with one mapping, for the thread sanitizer: what
// is no word of these algorithms (a frame in a cell, say, or what tokens stand for) is ordered by
// them. A thread is a process after the other: one "dies" by going away in the midst of it, with
// whatever it holds, and the others hear of that as they do from the kernel.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "flowctl/shared/proxy.h"
#include "flowctl/shared/server_token.h"
#include "flowctl/shared/token_pool.h"
#include "rendezvous/node_reads.h"
#include "tools/sim/random.h"

namespace weir {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto limit = std::chrono::seconds(120);
constexpr std::uint32_t workers = 3;
constexpr std::uint32_t most_processes = 1 << 16;

struct Killed {};

// Its process dies before the access at which `fuse` is 0.
class MortalWord {
 public:
  std::uint64_t load() const { return burn(), word_.load(); }
  void store(std::uint64_t value) { burn(), word_.store(value); }
  bool compare_exchange(std::uint64_t& expected, std::uint64_t wanted) {
    return burn(), word_.compare_exchange(expected, wanted);
  }

  static inline thread_local std::int64_t fuse = INT64_MAX;

 private:
  static void burn() {
    if (--fuse == 0) throw Killed();
  }
  SharedWord word_;
};

class Threads : public ::testing::Test {
 protected:
  // Each thread is one process after the other: `life(self, random)` returns when all is over, or
  // throws. Goes on until there were so many deaths, and so much was done since the last one.
  template <typename Life>
  void run(std::uint32_t deaths, std::uint64_t more, Life&& life) {
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < workers; ++i) {
      threads.emplace_back([&, i] {
        sim::Random random(i + 1);
        while (!stop_) {
          const ProcessId self{next_process_.fetch_add(1), 7};
          // Before the last deaths have come: then nobody dies any more.
          const bool mortal = deaths_ < deaths && self.pid < most_processes - workers;
          MortalWord::fuse = mortal ? static_cast<std::int64_t>(random.between(1, 600)) : INT64_MAX;
          try {
            life(self, random);
          } catch (const Killed&) {
            MortalWord::fuse = INT64_MAX;
            deaths_ += 1;
          }
          dead_[self.pid].store(true, std::memory_order_release);
        }
      });
    }
    const auto until = Clock::now() + limit;
    const auto wait_for = [&](auto&& holds) {
      while (!holds() && Clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
    wait_for([&] { return deaths_ >= deaths; });
    const std::uint64_t wanted = done_ + more;
    wait_for([&] { return done_ >= wanted; });
    EXPECT_GE(deaths_, deaths);
    EXPECT_GE(done_, wanted) << "who lives waits for the dead";
    stop_ = true;
    for (std::thread& thread : threads) thread.join();
  }

  auto alive() {
    return [this](ProcessId id) { return !dead_[id.pid].load(std::memory_order_acquire); };
  }
  // Long enough for those whose turn it is.
  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint32_t> deaths_{0};

 private:
  std::atomic<std::uint32_t> next_process_{1};
  std::array<std::atomic<bool>, most_processes> dead_{};
};

TEST_F(Threads, TheOnlyTokenOrdersWhatItStandsFor) {
  PoolHead<MortalWord> head{};
  std::array<PoolSlot<MortalWord>, workers + 2> slots{};
  std::uint64_t guarded = 0;
  run(150, 2'000, [&](ProcessId self, sim::Random& random) {
    TokenPool<MortalWord> pool(head, slots, 1);
    while (!pool.join(self, alive())) pause();
    while (!stop_) {
      TokenPool<MortalWord>::Ticket ticket;
      bool granted = pool.try_take(1, ticket);
      for (std::uint32_t looks = 1; !granted; ++looks) {
        pause();
        granted = pool.recheck(ticket);
        if (!granted && looks % 8 == 0) pool.reap(alive());
        if (stop_) return;
      }
      guarded += 1;
      done_ += 1;
      pool.give(1);
      if (random.chance(50)) pool.leave(), pool.join(self, alive());
      if (!pool.joined()) return;
    }
  });
  EXPECT_GT(guarded, 0u);
}

// The reads of a node whose processes all have a window of one chunk.
TEST_F(Threads, AWindowOfOneChunkOrdersTheReadsOfANode) {
  using Pool = PoolMember::Pool;
  PoolHead<SharedWord> head{};
  std::array<PoolSlot<SharedWord>, workers + 2> slots{};
  std::uint64_t guarded = 0;
  constexpr std::uint64_t chunk = 4 * NodeReads::bytes_per_token;
  run(50, 1'000, [&](ProcessId self, sim::Random& random) {
    Pool pool(head, slots, PoolMember::most_tokens);
    while (!pool.join(self, alive())) pause();
    NodeReads reads;
    reads.join(&pool);
    while (!stop_) {
      for (std::uint32_t looks = 1; !reads.ensure(chunk, chunk); ++looks) {
        pause();
        if (looks % 8 == 0) pool.reap(alive());
        if (stop_) return;
      }
      const std::uint32_t tokens = reads.commit();
      guarded += 1;
      done_ += 1;
      if (MortalWord::fuse != INT64_MAX && random.chance(50)) throw Killed();
      reads.give(tokens);
    }
  });
  EXPECT_GT(guarded, 0u);
}

TEST_F(Threads, TheServersTokenOrdersItsTerms) {
  MortalWord token{};
  std::uint64_t guarded = 0;
  run(150, 2'000, [&](ProcessId self, sim::Random&) {
    ServerToken<MortalWord> own(token, self);
    for (std::uint32_t looks = 1; !stop_; ++looks) {
      if (!own.try_take()) {
        pause();
        if (looks % 8 == 0) own.reap(alive());
        continue;
      }
      guarded += 1;
      done_ += 1;
      own.give();
    }
  });
  EXPECT_GT(guarded, 0u);
}

// ---- the proxy: frames in cells, one process writes them and another reads them
// -------------------

constexpr std::uint32_t cell_bytes = 256;
constexpr std::uint32_t tasks = workers + 1;

struct Ground {
  PoolHead<SharedWord> head{};
  std::array<PoolSlot<SharedWord>, tasks> slots{};
  std::array<ProxyQueue, tasks> queues{};
  std::array<SharedWord, 2> tokens{};
  std::vector<std::byte> cells = std::vector<std::byte>(tasks * proxy_depth * cell_bytes);

  ProxyGround view() {
    return {.tokens = tokens,
            .slots = slots,
            .queues = queues,
            .cells = cells.data(),
            .cell_bytes = cell_bytes,
            .tasks = tasks};
  }
};

// What came of a task's frames, as a receiver sees it. At most one living server has any in hand,
// and none while the task repeats what another one did not send.
struct Received {
  std::uint64_t owner = 0;
  std::uint64_t last = 0;
  std::uint64_t server = 0;
  std::uint64_t repeated = 0;
};

class ProxyThread {
 public:
  ProxyThread(Ground& ground, std::array<Received, tasks>& received, ProcessId self,
              sim::Random& random)
      : ground_(ground),
        received_(received),
        self_(self),
        random_(random),
        pool_(ground.head, ground.slots, 1) {}

  template <typename Alive>
  void join(Alive&& alive) {
    while (!pool_.join(self_, alive)) std::this_thread::yield();
    proxy_.join(ground_.view(), pool_.slot(), self_);
  }

  void submit() {
    const auto length = static_cast<std::uint32_t>(random_.between(8, cell_bytes - proxy_headroom));
    std::array<std::byte, cell_bytes> bytes;
    std::memset(bytes.data(), static_cast<int>(sequence_ & 0xff), length);
    if (!proxy_.submit({1, 2}, sequence_, self_.pid, bytes.data(), length)) return;
    ++sequence_;
  }

  template <typename Alive>
  void serve(Alive&& alive) {
    if (!proxy_.serving() && !proxy_.try_serve()) {
      const ProcessId other = proxy_.other_server();
      if (other.pid != 0 && !alive(other)) proxy_.reap(other);
      return;
    }
    std::uint32_t task = 0;
    proxy_.begin_round();
    while (proxy_.next_queue(task)) {
      Proxy::Work work;
      for (int i = 0; i < 4 && proxy_.take(task, work); ++i) send(work);
    }
    // The adapter is done with some, in order.
    while (!in_hand_.empty() && random_.chance(500)) {
      const Proxy::Work work = in_hand_.front();
      in_hand_.erase(in_hand_.begin());
      if (!is_whole(work)) ++torn;
      proxy_.complete(work.task, work.at, random_.chance(20) ? Proxy::refused : Proxy::sent);
    }
    if (proxy_.in_hand() == 0 && random_.chance(300)) proxy_.give();
  }

  template <typename Alive>
  std::uint64_t retire(Alive&& alive) {
    std::uint64_t count = 0;
    for (;;) {
      std::uint64_t outcome = 0;
      const Retirement what = proxy_.oldest(outcome, alive);
      if (what == Retirement::empty || what == Retirement::pending) break;
      // Before the request loses its place in line.
      if (what == Retirement::in_doubt) repeat_after(proxy_.server_of_oldest());
      doubts_ = doubts_ || outcome == Proxy::refused;
      proxy_.drop_oldest(outcome);
      ++count;
    }
    if (proxy_.server_of_oldest().pid == 0) {
      if (std::exchange(doubts_, false)) repeat();
      proxy_.clear_doubt();
    }
    return count;
  }

  static inline std::atomic<std::uint64_t> torn{0};
  static inline std::atomic<std::uint64_t> overtaken{0};

 private:
  // Sent from its cell, in front of which the server puts what is its own.
  void send(const Proxy::Work& work) {
    std::memset(work.frame, 0x5a, proxy_headroom);
    Received& received = received_[work.task];
    if (received.owner == work.rank && work.key <= received.last) ++overtaken;
    received.owner = work.rank;
    received.last = work.key;
    received.server = self_.pid;
    in_hand_.push_back(work);
  }
  // The task sends by itself what a server did not: no other server has later frames in hand.
  void repeat() { ++received_[pool_.slot()].repeated; }
  void repeat_after(ProcessId dead) {
    const Received& received = received_[pool_.slot()];
    if (received.owner == self_.pid && received.server != dead.pid) ++overtaken;
    repeat();
  }
  static bool is_whole(const Proxy::Work& work) {
    bool whole = work.frame[0] == std::byte{0x5a};
    for (std::uint32_t i = 0; i < work.length_bytes; ++i) {
      whole = whole && work.bytes[i] == static_cast<std::byte>(work.key & 0xff);
    }
    return whole;
  }

  Ground& ground_;
  std::array<Received, tasks>& received_;
  const ProcessId self_;
  sim::Random& random_;
  TokenPool<SharedWord> pool_;
  Proxy proxy_;
  std::uint64_t sequence_ = 1;
  bool doubts_ = false;
  std::vector<Proxy::Work> in_hand_;
};

TEST_F(Threads, AProxysQueuesOrderItsCells) {
  Ground ground;
  std::array<Received, tasks> received{};
  run(100, 5'000, [&](ProcessId self, sim::Random& random) {
    ProxyThread own(ground, received, self, random);
    own.join(alive());
    while (!stop_) {
      own.submit();
      own.serve(alive());
      done_ += own.retire(alive());
      if (MortalWord::fuse != INT64_MAX && random.chance(5)) throw Killed();
      if (random.chance(100)) pause();
    }
  });
  EXPECT_EQ(ProxyThread::torn, 0u);
  EXPECT_EQ(ProxyThread::overtaken, 0u);
}

}  // namespace
}  // namespace weir
