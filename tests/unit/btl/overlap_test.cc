// The overlap thread beside an application's threads, for the thread sanitizer: what they share
// without a lock is ordered, and once MPI_Finalize has begun the thread is gone. The engine below
// it is a stand-in (overlap/transport/btl/module.h); the real one is in contract/rxe_contract.cc.
#include "transport/btl/overlap.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "transport/btl/module.h"

namespace {
std::atomic<std::uint64_t> unasked_turns;
}

// In place of Open MPI's, which the overlap thread calls. It returns nothing in 4.1.
using Progress = decltype(opal_progress());
extern "C" Progress opal_progress() {
  unasked_turns.fetch_add(1, std::memory_order_relaxed);
  return Progress();
}

namespace weir::btl {

namespace {
void take(Module& module, std::uint64_t number) {
  if (number != module.last + 1) ++module.out_of_order;
  module.last = number;
}
}  // namespace

int stand_in_for_application(Module& module, std::uint64_t visits, int most) noexcept {
  return module.engine->stand_in(
      [&](std::uint64_t number) { take(module, number); }, visits,
      [&](int count) { return count < most && module.overlap->may_go_on(); });
}

namespace {

constexpr std::int32_t finalize_began = mpi_is_ready + 1;
constexpr auto limit = std::chrono::seconds(120);

// As progress.cc has it.
int progress(Module& module) {
  if (module.overlap->is_here())
    return module.overlap->is_in_upcall() ? 0 : module.overlap->hand_up();
  module.overlap->end_with_mpi();
  const int count = module.engine->progress([&](std::uint64_t number) { take(module, number); });
  module.overlap->after_visit();
  return count;
}

class OverlapThread : public ::testing::TestWithParam<wire::Wakes> {
 protected:
  void SetUp() override {
    ASSERT_NE(MPI_Comm_c2f, nullptr);  // so that libmpi is linked
    void* const libmpi = dlopen(libmpi_name, RTLD_LAZY | RTLD_NOLOAD);
    ASSERT_NE(libmpi, nullptr);
    state_ = static_cast<std::int32_t*>(dlsym(libmpi, "ompi_mpi_state"));
    ASSERT_NE(state_, nullptr);
    before_ = *state_;
    set_state(mpi_is_ready);
    module_.overlap = std::make_unique<Overlap>(module_, GetParam());
    std::string why;
    ASSERT_TRUE(module_.overlap->start(why)) << why;
    event_thread_ = std::thread([this] {
      for (std::uint64_t turn = 0; !stop_.load(std::memory_order_relaxed); ++turn) {
        if (turn % 4 == 0) module_.engine->arrive();
        module_.engine->look();
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    });
  }
  void TearDown() override {
    stop_ = true;
    if (event_thread_.joinable()) event_thread_.join();
    if (module_.overlap != nullptr) module_.overlap->end();  // its thread uses the pointer
    module_.overlap.reset();
    if (state_ != nullptr) set_state(before_);
  }
  void set_state(std::int32_t state) { __atomic_store_n(state_, state, __ATOMIC_RELEASE); }

  std::uint64_t upcalls() { return module_.engine->counters().overlap_upcalls; }
  template <typename Condition>
  static bool wait_for(Condition&& holds) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (!holds() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return holds();
  }

  Module module_;
  std::int32_t* state_ = nullptr;
  std::int32_t before_ = 0;
  std::atomic<bool> stop_{false};
  std::thread event_thread_;
};

TEST_P(OverlapThread, StandsInWhileTheApplicationsThreadsComeAndGo) {
  // Its threads call and compute in the same phases, in step with the clock; it computes for longer
  // than any pause that the event thread takes for a part of its calls.
  constexpr std::int64_t calls_ns = milliseconds(5).ns;
  constexpr std::int64_t computes_ns = Absence::longest_pause.ns * 2;
  std::atomic<bool> done{false};
  std::vector<std::thread> application;
  for (unsigned i = 0; i < 2; ++i) {
    application.emplace_back([&] {
      while (!done.load(std::memory_order_relaxed)) {
        constexpr std::int64_t both_ns = calls_ns + computes_ns;
        const std::int64_t left_ns = both_ns - Engine::clock().ns % both_ns;
        if (left_ns > computes_ns) {
          progress(module_);
        } else {
          std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
        }
      }
    });
  }
  EXPECT_TRUE(wait_for([&] { return upcalls() > 200; })) << upcalls();
  set_state(finalize_began);
  done = true;
  for (std::thread& thread : application) thread.join();
  progress(module_);
  EXPECT_EQ(module_.out_of_order, 0u);
}

// Whoever finds that MPI_Finalize has begun may use what upcalls use: the thread is gone.
TEST_P(OverlapThread, IsGoneOnceMpiEnds) {
  ASSERT_TRUE(wait_for([&] { return upcalls() > 20; })) << upcalls();
  set_state(finalize_began);
  std::atomic<std::uint64_t> handed_up{0};
  std::vector<std::thread> application;
  for (unsigned i = 0; i < 4; ++i) {
    application.emplace_back([&, i] {
      // The first one waits for the thread; the last one finds it gone.
      std::this_thread::sleep_for(std::chrono::milliseconds(5 + 40 * i));
      module_.overlap->end_with_mpi();
      module_.overlap->after_visit();
      handed_up += module_.last;
    });
  }
  for (std::thread& thread : application) thread.join();
  const std::uint64_t then = module_.last;
  EXPECT_EQ(handed_up, 4 * then);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(module_.last, then);
  EXPECT_EQ(module_.out_of_order, 0u);
}

TEST_P(OverlapThread, MovesAllOnlyIfItIsToDoSo) {
  const std::uint64_t before = unasked_turns.load();
  ASSERT_TRUE(wait_for([&] { return upcalls() > 20; })) << upcalls();
  if (GetParam() == wire::Wakes::all) {
    EXPECT_TRUE(wait_for([&] { return unasked_turns.load() > before; }));
  } else {
    EXPECT_EQ(unasked_turns.load(), before);
  }
}

// Open MPI 4.1's osc/pt2pt may be at work then. A library of its name stands in for it.
TEST_P(OverlapThread, MovesNoMoreThanItsOwnBesideWindows) {
  void* const component = dlopen(WEIR_OSC_PT2PT, RTLD_LAZY);
  ASSERT_NE(component, nullptr) << dlerror();
  auto* const windows = static_cast<opal_pointer_array_t*>(dlsym(RTLD_DEFAULT, "ompi_mpi_windows"));
  ASSERT_NE(windows, nullptr);
  ASSERT_EQ(windows->size, 0);
  __atomic_store_n(&windows->size, 2, __ATOMIC_RELAXED);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the turn under way ends
  const std::uint64_t before = unasked_turns.load(), then = upcalls();
  EXPECT_TRUE(wait_for([&] { return upcalls() > then + 20; })) << upcalls();
  EXPECT_EQ(unasked_turns.load(), before);
  __atomic_store_n(&windows->size, 0, __ATOMIC_RELAXED);
  dlclose(component);
}

INSTANTIATE_TEST_SUITE_P(Each, OverlapThread,
                         ::testing::Values(wire::Wakes::answers, wire::Wakes::all));

}  // namespace
}  // namespace weir::btl
