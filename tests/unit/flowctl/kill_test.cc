// Real processes on real shared memory, and kill -9: by the process itself before some access that
// the seed names, and by its parent whenever.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>

#include "flowctl/shared_word.h"
#include "flowctl/shm/process.h"
#include "flowctl/token_pool.h"
#include "tools/sim/random.h"

namespace weir {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto deadline = std::chrono::seconds(300);

// Dies before the access at which `fuse` is 0.
class FragileWord {
 public:
  std::uint64_t load() const { return burn(), word_.load(); }
  void store(std::uint64_t value) { burn(), word_.store(value); }
  bool compare_exchange(std::uint64_t& expected, std::uint64_t wanted) {
    return burn(), word_.compare_exchange(expected, wanted);
  }

  static inline std::int64_t fuse = INT64_MAX;

 private:
  static void burn() {
    if (--fuse == 0) ::kill(::getpid(), SIGKILL);
  }
  SharedWord word_;
};

using Pool = TokenPool<FragileWord>;

constexpr std::uint32_t workers = 4;
constexpr std::uint32_t pool_tokens = 5;

struct Shared {
  PoolHead<FragileWord> head;
  PoolSlot<FragileWord> slots[workers + 2];
  std::atomic<bool> stop;
  std::atomic<std::uint64_t> grants;
  std::atomic<std::int64_t> in_use;
  std::atomic<std::uint64_t> too_many;
  std::atomic<std::uint64_t> reaped;
};

class KillTest : public ::testing::Test {
 protected:
  KillTest() {
    void* at =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = static_cast<Shared*>(at);
  }
  ~KillTest() override {
    for (const pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
    }
    ::munmap(shared_, sizeof(Shared));
  }

  void SetUp() override { ASSERT_NE(static_cast<void*>(shared_), MAP_FAILED); }

  // Long enough for those whose turn it is.
  static void pause() { ::usleep(20); }

  // Takes and gives until it is told to stop, `most` times at most.
  void work(std::uint64_t seed, std::uint64_t most, std::int64_t fuse) {
    sim::Random random(seed);
    FragileWord::fuse = fuse;
    Pool pool(shared_->head, shared_->slots, pool_tokens);
    while (!pool.join(*this_process(), process_alive)) pause();
    for (std::uint64_t i = 0; i < most && !shared_->stop; ++i) {
      Pool::Ticket ticket;
      bool granted = pool.try_take(random.between(1, pool_tokens + 1), ticket);
      for (std::uint32_t looks = 1; !granted; ++looks) {
        pause();
        granted = pool.recheck(ticket);
        if (!granted && looks % 32 == 0) shared_->reaped += pool.reap(process_alive);
      }
      shared_->grants += 1;
      if (shared_->in_use.fetch_add(ticket.tokens) + ticket.tokens > pool_tokens) {
        shared_->too_many += 1;
      }
      if (random.chance(100)) pause();
      shared_->in_use -= ticket.tokens;
      pool.give(ticket.tokens);
    }
    pool.leave();
    ::_exit(0);
  }

  void start(std::uint32_t worker, std::uint64_t seed, std::uint64_t most, std::int64_t fuse) {
    pids_[worker] = ::fork();
    ASSERT_GE(pids_[worker], 0);
    if (pids_[worker] == 0) work(seed, most, fuse);
  }

  // Whoever comes next finds a full pool and all slots.
  void expect_nothing_lost() {
    Pool pool(shared_->head, shared_->slots, pool_tokens);
    ASSERT_TRUE(pool.join(*this_process(), process_alive));
    for (std::uint32_t i = 0; i < 2 * workers; ++i) pool.reap(process_alive);
    EXPECT_EQ(pool.asked(), 0u);
    Pool::Ticket ticket;
    EXPECT_TRUE(pool.try_take(pool_tokens, ticket));
    std::uint32_t leased = 0;
    for (const auto& slot : shared_->slots) leased += !lease::free(slot.lease.load());
    EXPECT_EQ(leased, 1u);
  }

  Shared* shared_;
  std::array<pid_t, workers> pids_{};
};

TEST_F(KillTest, NeverMoreInUseThanThereAre) {
  for (std::uint32_t i = 0; i < workers; ++i) start(i, i, 500, INT64_MAX);
  for (pid_t& pid : pids_) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    pid = 0;
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(shared_->too_many, 0u);
  EXPECT_EQ(shared_->grants, workers * 500u);
  expect_nothing_lost();
}

// Odd workers die by their fuse, even ones by us.
TEST_F(KillTest, NothingIsLost) {
  constexpr std::uint32_t most_kills = 200;
  sim::Random random(20120625);
  const auto fuse = [&](std::uint32_t worker) {
    return worker % 2 == 1 ? static_cast<std::int64_t>(random.between(1, 400)) : INT64_MAX;
  };
  for (std::uint32_t i = 0; i < workers; ++i) start(i, random.next(), UINT64_MAX, fuse(i));
  const auto until = Clock::now() + deadline;
  std::uint32_t kills = 0;
  while (kills < most_kills && Clock::now() < until) {
    int status = 0;
    const pid_t died = ::waitpid(-1, &status, WNOHANG);
    if (died > 0) {
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
      ++kills;
      const auto worker =
          static_cast<std::uint32_t>(std::find(pids_.begin(), pids_.end(), died) - pids_.begin());
      start(worker, random.next(), UINT64_MAX, fuse(worker));
    } else {
      ::usleep(static_cast<useconds_t>(random.between(100, 2'000)));
      ::kill(pids_[2 * random.below(workers / 2)], SIGKILL);
    }
  }
  EXPECT_EQ(kills, most_kills);
  // Who lives goes on: nobody waits for what the dead held. (Of the last kills not all were seen:
  // all are dead now, and the even ones begin anew.)
  for (std::uint32_t i = 0; i < workers; ++i) {
    ::kill(pids_[i], SIGKILL);
    ::waitpid(pids_[i], nullptr, 0);
    pids_[i] = 0;
  }
  const std::uint64_t grants = shared_->grants;
  for (std::uint32_t i = 0; i < workers; i += 2) start(i, random.next(), UINT64_MAX, INT64_MAX);
  while (shared_->grants < grants + 20 && Clock::now() < until) ::usleep(1'000);
  EXPECT_GE(shared_->grants, grants + 20);
  shared_->stop = true;
  for (pid_t& pid : pids_) {
    if (pid > 0) ::waitpid(pid, nullptr, 0);
    pid = 0;
  }
  EXPECT_GT(shared_->reaped, 0u);
  expect_nothing_lost();
}

TEST(Process, LivesUntilItIsKilled) {
  const auto self = this_process();
  ASSERT_TRUE(self);
  EXPECT_EQ(self->pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_TRUE(process_alive(*self));
  EXPECT_FALSE(process_alive({self->pid, self->start_ticks + 1}));  // another one of this number
  EXPECT_NE(pid_namespace(), 0u);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const ProcessId id = *this_process();
    if (::write(ready[1], &id, sizeof id) != sizeof id) ::_exit(1);
    for (;;) ::pause();
  }
  ProcessId id;
  ASSERT_EQ(::read(ready[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  EXPECT_TRUE(process_alive(id));
  ::kill(child, SIGKILL);
  const auto until = Clock::now() + deadline;
  while (process_alive(id) && Clock::now() < until) ::usleep(1'000);
  EXPECT_FALSE(process_alive(id));  // and nobody has waited for it yet
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(process_alive(id));
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace weir
