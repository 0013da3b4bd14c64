// Who takes over from an application that computes: its steps one by one, and the threads that there
// are in a process, with real time. The latter is for the thread sanitizer.
#include "transport/drive/stand_in_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/drive/absence.h"

namespace weir {
namespace {

// What waits is a number of messages; the application takes them, or only calls.
struct Steps : StandInLoop<Steps> {
  using StandInLoop::begin;
  using StandInLoop::turn;

  bool waits(std::uint64_t& calls) {
    calls = visits;
    return waiting > 0;
  }
  int hand_up_some(std::uint64_t calls) {
    if (calls != visits || waiting == 0) return 0;
    --waiting;
    ++handed_up;
    if (handed_up == comes_back_after) ++visits;
    return 1;
  }
  void called_in_vain() { ++in_vain; }

  std::uint64_t visits = 7;
  int waiting = 0;
  int handed_up = 0;
  int comes_back_after = 0;
  int in_vain = 0;
};

TEST(StandInLoop, HandsUpUntilNothingWaits) {
  Steps steps;
  steps.waiting = 3;
  steps.begin(7);
  EXPECT_EQ(steps.turn(), std::nullopt);
  EXPECT_EQ(steps.handed_up, 3);
  EXPECT_EQ(steps.in_vain, 0);
}

TEST(StandInLoop, WhoCallsTakesItItself) {
  Steps steps;
  steps.waiting = 3;
  steps.begin(7);
  ++steps.visits;
  EXPECT_EQ(steps.turn(), microseconds(50));
  ++steps.visits;
  EXPECT_EQ(steps.turn(), microseconds(100));
  EXPECT_EQ(steps.handed_up, 0);
  steps.waiting = 0;
  EXPECT_EQ(steps.turn(), std::nullopt);
  EXPECT_EQ(steps.in_vain, 1);
}

TEST(StandInLoop, WhoComesBackIsLeftTheRest) {
  Steps steps;
  steps.waiting = 3;
  steps.comes_back_after = 2;
  steps.begin(7);
  EXPECT_EQ(steps.turn(), microseconds(50));
  EXPECT_EQ(steps.waiting, 1);
  EXPECT_EQ(steps.turn(), std::nullopt) << "it went away again";
  EXPECT_EQ(steps.in_vain, 0);
}

TEST(StandInLoop, LooksAfterAMillisecondAtTheLatest) {
  Steps steps;
  steps.waiting = 1;
  steps.begin(7);
  for (int i = 0; i < 10; ++i) {
    ++steps.visits;
    EXPECT_LE(*steps.turn(), Steps::longest_pause);
  }
  EXPECT_EQ(steps.turn(), std::nullopt) << "it is away";
}

// A process with one lock: its application, its event thread, and who stands in.
class Process : StandInLoop<Process> {
 public:
  Process() : event_thread_([this] { watch(); }), stand_in_([this] { run(); }) {}
  ~Process() {
    over_ = true;
    bell_.notify_all();
    event_thread_.join();
    stand_in_.join();
  }

  void arrive(int message) {
    const std::lock_guard guard(lock_);
    waiting_.push_back(message);
  }
  // The application calls MPI.
  void progress() {
    const std::lock_guard guard(lock_);
    ++visits_;
    while (take(by_application)) {
    }
  }
  bool is_empty() {
    const std::lock_guard guard(lock_);
    return waiting_.empty();
  }

  std::vector<int> by_application;
  std::vector<int> by_stand_in;
  std::vector<int> all;

 private:
  friend class StandInLoop<Process>;

  bool take(std::vector<int>& by) {
    if (waiting_.empty()) return false;
    by.push_back(waiting_.front());
    all.push_back(waiting_.front());
    waiting_.pop_front();
    return true;
  }

  static Time now() {
    return Time{std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1)};
  }

  void watch() {
    while (!over_) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      const std::lock_guard guard(lock_);
      if (!absence_.calls(now(), visits_, false, !waiting_.empty())) continue;
      rung_ = true;
      bell_.notify_all();
    }
  }

  void run() {
    while (!over_) {
      {
        std::unique_lock guard(lock_);
        bell_.wait_for(guard, std::chrono::milliseconds(10), [this] { return rung_ || over_; });
        if (!std::exchange(rung_, false)) continue;
        begin(absence_.visits_when_called());
      }
      while (const std::optional<Duration> pause = turn()) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(pause->ns));
      }
    }
  }

  // Of StandInLoop.
  bool waits(std::uint64_t& visits) {
    const std::lock_guard guard(lock_);
    visits = visits_;
    return absence_.still_waits(!waiting_.empty()) && !over_;
  }
  int hand_up_some(std::uint64_t visits) {
    const std::lock_guard guard(lock_);
    return visits == visits_ && take(by_stand_in) ? 1 : 0;
  }
  void called_in_vain() {
    const std::lock_guard guard(lock_);
    absence_.was_in_vain();
  }

  std::mutex lock_;
  std::condition_variable bell_;
  std::deque<int> waiting_;
  Absence absence_;
  std::uint64_t visits_ = 0;
  bool rung_ = false;
  std::atomic<bool> over_{false};
  std::thread event_thread_;
  std::thread stand_in_;
};

TEST(StandInLoop, OneThreadOrTheOtherHandsUpEachMessageOnceAndInOrder) {
  constexpr int messages = 400;
  Process process;
  std::thread sender([&] {
    for (int i = 0; i < messages; ++i) {
      process.arrive(i);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  for (int turn = 0; turn < 4; ++turn) {
    for (int i = 0; i < 50; ++i) process.progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  sender.join();
  // Nobody calls any more: the other thread has the rest.
  for (int i = 0; i < 10'000 && !process.is_empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(process.is_empty());
  ASSERT_EQ(process.all.size(), std::size_t{messages});
  for (int i = 0; i < messages; ++i) EXPECT_EQ(process.all[static_cast<std::size_t>(i)], i);
  EXPECT_FALSE(process.by_stand_in.empty());
}

}  // namespace
}  // namespace weir
