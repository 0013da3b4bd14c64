// Real processes for tests of shared memory, and kill -9: by the process itself before some access
// that the seed names, and by its parent whenever.
//
// They die with the test, however that ends.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>

#include "flowctl/shared/shared_word.h"
#include "tools/sim/random.h"

namespace weir {

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

// Memory that processes forked later share; all zeros.
template <typename T>
class SharedMemory {
 public:
  SharedMemory()
      : at_(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
  }
  ~SharedMemory() {
    if (valid()) ::munmap(at_, sizeof(T));
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  bool valid() const { return at_ != MAP_FAILED; }
  T* operator->() const { return static_cast<T*>(at_); }

 private:
  void* at_;
};

// Processes 0 … count-1. Odd ones die by their fuse, even ones by us.
template <std::uint32_t count>
class Victims {
 public:
  using Clock = std::chrono::steady_clock;
  using Work = std::function<void(std::uint64_t seed)>;

  ~Victims() { kill_all(); }

  static std::int64_t fuse(std::uint32_t which, sim::Random& random) {
    return which % 2 == 1 ? static_cast<std::int64_t>(random.between(1, 400)) : INT64_MAX;
  }

  // `work` is all that the process does.
  void start(std::uint32_t which, std::uint64_t seed, std::int64_t fuse, const Work& work) {
    const pid_t parent = ::getpid();
    pids_[which] = ::fork();
    ASSERT_GE(pids_[which], 0);
    if (pids_[which] > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    FragileWord::fuse = fuse;
    work(seed);
    ::_exit(0);
  }

  // All of them, each with a seed and a fuse of its own.
  void start_all(sim::Random& random, const Work& work) {
    for (std::uint32_t i = 0; i < count; ++i) start(i, random.next(), fuse(i, random), work);
  }

  // Each that is killed begins anew. Returns the kills, fewer than `most` if it took too long.
  std::uint32_t kill_and_restart(sim::Random& random, std::uint32_t most, Clock::time_point until,
                                 const Work& work) {
    std::uint32_t kills = 0;
    while (kills < most && Clock::now() < until) {
      int status = 0;
      const pid_t died = ::waitpid(-1, &status, WNOHANG);
      if (died > 0) {
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
        ++kills;
        const auto which =
            static_cast<std::uint32_t>(std::find(pids_.begin(), pids_.end(), died) - pids_.begin());
        start(which, random.next(), fuse(which, random), work);
      } else {
        ::usleep(static_cast<useconds_t>(random.between(100, 2'000)));
        ::kill(pids_[2 * random.below(count / 2)], SIGKILL);
      }
    }
    return kills;
  }

  void kill_all() {
    for (pid_t& pid : pids_) {
      if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
      pid = 0;
    }
  }

  // Until all have ended by themselves; false, and they are killed, if one failed or took too long.
  bool wait_for_all(Clock::time_point until) {
    bool good = true;
    for (pid_t& pid : pids_) {
      if (pid <= 0) continue;
      int status = 0;
      pid_t ended = 0;
      while ((ended = ::waitpid(pid, &status, WNOHANG)) == 0 && Clock::now() < until) {
        ::usleep(1'000);
      }
      good = good && ended == pid && status == 0;
      if (ended == pid) pid = 0;
    }
    kill_all();
    return good;
  }

 private:
  std::array<pid_t, count> pids_{};
};

}  // namespace weir
