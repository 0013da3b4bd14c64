// Tokens, with real processes on real shared memory and kill -9 (victims.h).
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>

#include <atomic>
#include <string>

#include "flowctl/shared/token_pool.h"
#include "flowctl/shm/process.h"
#include "tests/unit/flowctl/victims.h"

namespace weir {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto deadline = std::chrono::seconds(300);

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
  void SetUp() override { ASSERT_TRUE(shared_.valid()); }

  // Long enough for those whose turn it is.
  static void pause() { ::usleep(20); }

  // Takes and gives until it is told to stop, `most` times at most.
  void work(std::uint64_t seed, std::uint64_t most) {
    sim::Random random(seed);
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

  SharedMemory<Shared> shared_;
  Victims<workers> victims_;
};

TEST_F(KillTest, NeverMoreInUseThanThereAre) {
  for (std::uint32_t i = 0; i < workers; ++i) {
    victims_.start(i, i, INT64_MAX, [&](std::uint64_t seed) { work(seed, 500); });
  }
  EXPECT_TRUE(victims_.wait_for_all(Clock::now() + deadline));
  EXPECT_EQ(shared_->too_many, 0u);
  EXPECT_EQ(shared_->grants, workers * 500u);
  expect_nothing_lost();
}

TEST_F(KillTest, NothingIsLost) {
  constexpr std::uint32_t most_kills = 200;
  sim::Random random(20120625);
  const auto for_ever = [&](std::uint64_t seed) { work(seed, UINT64_MAX); };
  victims_.start_all(random, for_ever);
  const auto until = Clock::now() + deadline;
  EXPECT_EQ(victims_.kill_and_restart(random, most_kills, until, for_ever), most_kills);
  // The living go on: nobody waits for what the dead held. (Of the last kills not all were seen:
  // all are dead now, and the even ones begin anew.)
  victims_.kill_all();
  const std::uint64_t grants = shared_->grants;
  for (std::uint32_t i = 0; i < workers; i += 2) {
    victims_.start(i, random.next(), INT64_MAX, for_ever);
  }
  while (shared_->grants < grants + 20 && Clock::now() < until) ::usleep(1'000);
  EXPECT_GE(shared_->grants, grants + 20);
  shared_->stop = true;
  EXPECT_TRUE(victims_.wait_for_all(until));
  EXPECT_GT(shared_->reaped, 0u);
  expect_nothing_lost();
}

// A process that begins with `begin` and stays until it is killed.
ProcessId start_process(void (*begin)()) {
  int ready[2];
  if (::pipe(ready) != 0) return {};
  const pid_t parent = ::getpid();
  if (::fork() == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    begin();
    const ProcessId id = *this_process();
    if (::getppid() != parent || ::write(ready[1], &id, sizeof id) != sizeof id) ::_exit(1);
    for (;;) ::pause();
  }
  ProcessId id;
  EXPECT_EQ(::read(ready[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  ::close(ready[0]);
  ::close(ready[1]);
  return id;
}

TEST(Process, LivesUntilItIsKilled) {
  const auto self = this_process();
  ASSERT_TRUE(self);
  EXPECT_EQ(self->pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_TRUE(process_alive(*self));
  EXPECT_FALSE(process_alive({self->pid, self->start_ticks + 1}));  // another one of this number
  EXPECT_NE(process_namespaces(), 0u);
  const ProcessId id = start_process([] {});
  EXPECT_TRUE(process_alive(id));
  ::kill(static_cast<pid_t>(id.pid), SIGKILL);
  const auto until = Clock::now() + deadline;
  while (process_alive(id) && Clock::now() < until) ::usleep(1'000);
  EXPECT_FALSE(process_alive(id));  // and nobody has waited for it yet
  ::waitpid(static_cast<pid_t>(id.pid), nullptr, 0);
  EXPECT_FALSE(process_alive(id));
}

// With hidepid=2, /proc hides a process that one may not trace, even one's own: that of a program
// with capabilities, say.
TEST(Process, LivesWhereProcHidesIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a /proc that hides processes";
  const pid_t watcher = ::fork();
  ASSERT_GE(watcher, 0);
  if (watcher == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("proc", "/proc", "proc", 0, "hidepid=2") != 0 || ::setgroups(0, nullptr) != 0 ||
        ::setgid(65534) != 0 || ::setuid(65534) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
      ::_exit(3);
    }
    const ProcessId id = start_process([] { ::prctl(PR_SET_DUMPABLE, 0); });
    const std::string path = "/proc/" + std::to_string(id.pid);
    if (::access(path.c_str(), F_OK) == 0) ::_exit(3);
    const bool alive = process_alive(id);
    ::kill(static_cast<pid_t>(id.pid), SIGKILL);
    ::waitpid(static_cast<pid_t>(id.pid), nullptr, 0);
    ::_exit(!alive ? 1 : process_alive(id) ? 2 : 0);
  }
  int status = 0;
  ::waitpid(watcher, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 3) GTEST_SKIP() << "cannot hide processes here";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: counts as dead; 2: lives on when it was killed";
}

}  // namespace
}  // namespace weir
