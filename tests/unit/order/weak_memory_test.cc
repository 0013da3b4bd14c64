// The memory itself: what well-known little programs may end with, by C++ and by ARM.
#include "tests/unit/order/weak_memory.h"

#include <gtest/gtest.h>

#include "tests/unit/order/atomics.h"

namespace weir {
namespace {

constexpr auto relaxed = std::memory_order_relaxed, acquire = std::memory_order_acquire,
               release = std::memory_order_release, seq_cst = std::memory_order_seq_cst;
using Order = std::memory_order;

// Two words, and what each thread read.
struct Words {
  Atomic<int> x{0}, y{0};
  std::array<std::array<int, 2>, 3> read{};
};

template <typename World>
bool may_be_odd() {
  weak::Memory memory;
  const auto result = memory.explore<World>();
  EXPECT_TRUE(result.problem.empty() || result.problem == "odd") << result.problem;
  EXPECT_GT(result.runs, 0u);
  return result.problem == "odd";
}

// Each stores into one word and then reads the other: both read nothing.
template <Order stores, Order loads>
struct Buffering : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t t) {
    (t == 0 ? x : y).store(1, stores);
    read[t][0] = (t == 0 ? y : x).load(loads);
  }
  const char* broken() { return read[0][0] == 0 && read[1][0] == 0 ? "odd" : nullptr; }
};

TEST(WeakMemory, StoresPassLaterLoads) {
  EXPECT_TRUE((may_be_odd<Buffering<relaxed, relaxed>>()));
  EXPECT_TRUE((may_be_odd<Buffering<release, acquire>>()));
  EXPECT_TRUE((may_be_odd<Buffering<seq_cst, acquire>>()));
  EXPECT_FALSE((may_be_odd<Buffering<seq_cst, seq_cst>>()));
}

// One writes data, then a flag: the other sees the flag, and not the data.
template <Order stores, Order loads>
struct Passing : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t t) {
    if (t == 0) {
      x.store(1, relaxed);
      y.store(1, stores);
    } else {
      read[1] = {y.load(loads), x.load(relaxed)};
    }
  }
  const char* broken() { return read[1] == std::array{1, 0} ? "odd" : nullptr; }
};

TEST(WeakMemory, OnlyAReleaseAndAnAcquirePassDataOn) {
  EXPECT_TRUE((may_be_odd<Passing<relaxed, relaxed>>()));
  EXPECT_TRUE((may_be_odd<Passing<release, relaxed>>()));
  EXPECT_TRUE((may_be_odd<Passing<relaxed, acquire>>()));
  EXPECT_FALSE((may_be_odd<Passing<release, acquire>>()));
}

// The flag goes through a third thread's exchange, or store, which is no release.
template <bool exchanges>
struct PassingOn : Words {
  static constexpr std::size_t threads = 3;
  void run(std::size_t t) {
    if (t == 0) {
      x.store(1, relaxed);
      y.store(1, release);
    } else if (t == 1) {
      if constexpr (exchanges) {
        y.fetch_add(1, relaxed);
      } else if (y.load(relaxed) == 1) {
        y.store(2, relaxed);
      }
    } else {
      read[2] = {y.load(acquire), x.load(relaxed)};
    }
  }
  const char* broken() { return read[2] == std::array{2, 0} ? "odd" : nullptr; }
};

TEST(WeakMemory, AnExchangePassesOnWhatItRead) {
  EXPECT_FALSE(may_be_odd<PassingOn<true>>());
  EXPECT_TRUE(may_be_odd<PassingOn<false>>());
}

// A word does not go back for who has seen it.
struct Coherent : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t t) {
    if (t == 0) {
      x.store(1, relaxed);
      x.store(2, relaxed);
    } else {
      read[1] = {x.load(relaxed), x.load(relaxed)};
    }
  }
  const char* broken() { return read[1][0] > read[1][1] ? "odd" : nullptr; }
};

TEST(WeakMemory, AWordDoesNotGoBack) { EXPECT_FALSE(may_be_odd<Coherent>()); }

// Both write both words, in opposite orders: each word ends with the first of a thread's stores.
template <Order stores>
struct Crossing : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t t) {
    (t == 0 ? x : y).store(1, stores);
    (t == 0 ? y : x).store(2, stores);
  }
  const char* broken() { return x.load() == 1 && y.load() == 1 ? "odd" : nullptr; }
};

TEST(WeakMemory, StoresOfDifferentWordsPassEachOther) {
  EXPECT_TRUE(may_be_odd<Crossing<relaxed>>());
  EXPECT_FALSE(may_be_odd<Crossing<seq_cst>>());
}

// Loads do not see a store that comes later: the one thing that C++ allows and this leaves out.
struct LoadBuffering : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t t) {
    read[t][0] = (t == 0 ? x : y).load(relaxed);
    (t == 0 ? y : x).store(1, relaxed);
  }
  const char* broken() { return read[0][0] == 1 && read[1][0] == 1 ? "odd" : nullptr; }
};

TEST(WeakMemory, LoadsDoNotPassLaterStores) { EXPECT_FALSE(may_be_odd<LoadBuffering>()); }

// An exchange reads what is just before its own value.
struct Counting : Words {
  static constexpr std::size_t threads = 3;
  void run(std::size_t) { x.fetch_add(1, relaxed); }
  const char* broken() { return x.load() == 3 ? nullptr : "odd"; }
};

TEST(WeakMemory, NoExchangeIsLost) { EXPECT_FALSE(may_be_odd<Counting>()); }

template <Order stores>
struct Racing : Words {
  static constexpr std::size_t threads = 2;
  Plain data;
  void run(std::size_t t) {
    if (t == 0) {
      data.write();
      x.store(1, stores);
    } else if (x.load(acquire) == 1) {
      data.read();
    }
  }
  const char* broken() { return nullptr; }
};

TEST(WeakMemory, ARaceIsFound) {
  EXPECT_EQ(weak::Memory().explore<Racing<release>>().problem, "");
  EXPECT_NE(weak::Memory().explore<Racing<relaxed>>().problem, "");
}

// Who sleeps in the kernel is woken by who has changed the word before.
struct Sleeping : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t t) {
    if (t == 0) {
      weak::Memory::current->sleep(&x, 0, 0);
    } else {
      x.store(1, relaxed);
      weak::Memory::current->wake(&x, 0);
    }
  }
  const char* broken() { return nullptr; }
};

TEST(WeakMemory, TheKernelLosesNoWakeUp) {
  EXPECT_EQ(weak::Memory().explore<Sleeping>().problem, "");
}

}  // namespace
}  // namespace weir
