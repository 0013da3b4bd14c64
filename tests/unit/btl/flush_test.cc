#include "transport/btl/flush.h"

#include <gtest/gtest.h>

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

TEST(Flush, OfManyThreadsAtATime) {
  FlushEpochs epochs;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        const std::uint8_t mine = epochs.begin();
        bool over = false;
        epochs.flush([&] {
          if (!over) epochs.end(mine);
          over = true;
          std::this_thread::yield();
        });
        ASSERT_TRUE(over);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weir::btl
