// The proxy's server token, with real processes on real shared memory and kill -9 (victims.h): one
// that lives serves at a time, and a dead one holds up nobody.
#include <atomic>

#include "flowctl/shared/server_token.h"
#include "flowctl/shm/process.h"
#include "tests/unit/flowctl/victims.h"

namespace weir {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto deadline = std::chrono::seconds(300);

constexpr std::uint32_t workers = 4;

struct Shared {
  FragileWord token;
  std::atomic<std::uint64_t> serving;  // the lease of who says that it serves; 0: nobody
  std::atomic<bool> stop;
  std::atomic<std::uint64_t> terms;
  std::atomic<std::uint64_t> two_at_once;
  std::atomic<std::uint64_t> reaped;
};

class ServerKillTest : public ::testing::Test {
 protected:
  using Token = ServerToken<FragileWord>;

  void SetUp() override { ASSERT_TRUE(shared_.valid()); }

  static void pause() { ::usleep(20); }

  // Serves by terms until it is told to stop.
  void work(std::uint64_t seed) {
    sim::Random random(seed);
    Token token(shared_->token, *this_process());
    for (std::uint32_t looks = 1; !shared_->stop; ++looks) {
      if (!token.try_take()) {
        pause();
        if (looks % 32 == 0) shared_->reaped += token.reap(process_alive);
        continue;
      }
      // The one before is over: it has said so, or is dead.
      const std::uint64_t before = shared_->serving.exchange(token.lease());
      if (before != 0 && process_alive(lease::process(before))) shared_->two_at_once += 1;
      if (random.chance(300)) pause();
      std::uint64_t mine = token.lease();
      if (!shared_->serving.compare_exchange_strong(mine, 0)) shared_->two_at_once += 1;
      shared_->terms += 1;
      token.give();
      if (random.chance(500)) pause();
    }
  }

  SharedMemory<Shared> shared_;
  Victims<workers> victims_;
};

TEST_F(ServerKillTest, OneServesAtATimeAndADeadOneIsReplaced) {
  constexpr std::uint32_t most_kills = 200;
  sim::Random random(20121112);
  const auto serve = [&](std::uint64_t seed) { work(seed); };
  victims_.start_all(random, serve);
  const auto until = Clock::now() + deadline;
  EXPECT_EQ(victims_.kill_and_restart(random, most_kills, until, serve), most_kills);
  victims_.kill_all();
  EXPECT_EQ(shared_->two_at_once, 0u);
  EXPECT_GT(shared_->reaped, 0u);

  // Whatever the last ones held, others serve.
  const std::uint64_t terms = shared_->terms;
  for (std::uint32_t i = 0; i < workers; i += 2) {
    victims_.start(i, random.next(), INT64_MAX, serve);
  }
  while (shared_->terms < terms + 20 && Clock::now() < until) ::usleep(1'000);
  EXPECT_GE(shared_->terms, terms + 20);
  shared_->stop = true;
  EXPECT_TRUE(victims_.wait_for_all(until));
  EXPECT_EQ(shared_->two_at_once, 0u);
  EXPECT_TRUE(lease::free(shared_->token.load()));
  EXPECT_EQ(shared_->serving, 0u);
}

}  // namespace
}  // namespace weir
