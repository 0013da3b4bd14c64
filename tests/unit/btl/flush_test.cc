#include "transport/btl/flush.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace weir::btl {
namespace {

TEST(Flush, MakesProgressAtLeastOnce) {
  FlushEpochs epochs;
  int calls = 0;
  epochs.flush([&] { ++calls; });
  EXPECT_GE(calls, 1);
}

// Traffic that never ceases: with each operation that ends another one begins.
TEST(Flush, WaitsForWhatWasBegunBeforeAndForNothingElse) {
  FlushEpochs epochs;
  std::vector<std::uint8_t> running;
  for (int i = 0; i < 10; ++i) running.push_back(epochs.begin());
  int calls = 0;
  epochs.flush([&] {
    ++calls;
    epochs.end(running.front());
    running.erase(running.begin());
    running.push_back(epochs.begin());
  });
  EXPECT_GE(calls, 10);
  EXPECT_LE(calls, 12);
}

TEST(Flush, OneAfterTheOtherWaitsForItsOwn) {
  FlushEpochs epochs;
  for (int round = 0; round < 5; ++round) {
    const std::uint8_t mine = epochs.begin();
    bool over = false;
    epochs.flush([&] {
      if (!over) epochs.end(mine);
      over = true;
    });
    EXPECT_TRUE(over);
  }
}

// Each thread begins an operation, which another thread ends some time later, and flushes.
TEST(Flush, OfManyThreadsAtATimeWaitsForWhatEachHasBegun) {
  struct Operation {
    std::atomic<std::uint8_t> epoch{FlushEpochs::none};  // while it runs
    std::atomic<bool> over{false};
  };
  FlushEpochs epochs;
  std::array<Operation, 4> operations;
  std::atomic<std::size_t> left{operations.size()};
  std::vector<std::thread> threads;
  for (Operation& mine : operations) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        mine.over = false;
        mine.epoch = epochs.begin();
        epochs.flush([] { std::this_thread::yield(); });
        EXPECT_TRUE(mine.over);
        while (!mine.over) std::this_thread::yield();
      }
      --left;
    });
  }
  while (left > 0) {
    for (Operation& operation : operations) {
      const std::uint8_t epoch = operation.epoch.exchange(FlushEpochs::none);
      if (epoch == FlushEpochs::none) continue;
      operation.over = true;
      epochs.end(epoch);
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weir::btl
