// What a thread has taken, and hands up one by one.
#include "transport/engine/taken.h"

#include <gtest/gtest.h>

#include <thread>

#include "transport/engine/thread_mark.h"

namespace weir {
namespace {

TEST(Taken, HandsUpInOrderAndOnce) {
  Taken<int> taken;
  EXPECT_TRUE(taken.empty());
  for (int round = 0; round < 3; ++round) {
    std::vector<int> arrived{1, 2, 3};
    taken.take(arrived);
    EXPECT_TRUE(arrived.empty());
    for (int i = 1; i <= 3; ++i) {
      ASSERT_FALSE(taken.empty());
      EXPECT_EQ(taken.pop(), i);
    }
    EXPECT_TRUE(taken.empty());
  }
}

TEST(Taken, LooksOnlyAtWhatIsLeft) {
  Taken<int> taken;
  std::vector<int> arrived{7, 8};
  taken.take(arrived);
  const auto is_seven = [](int i) { return i == 7; };
  EXPECT_TRUE(taken.any_of(is_seven));
  taken.pop();
  EXPECT_FALSE(taken.any_of(is_seven));
}

TEST(Taken, KeepsTheMemoryOfBoth) {
  Taken<int> taken;
  std::vector<int> arrived;
  taken.reserve(64);
  arrived.reserve(64);
  for (int round = 0; round < 4; ++round) {
    arrived.push_back(round);
    taken.take(arrived);
    EXPECT_GE(arrived.capacity(), 64u);
  }
}

TEST(ThreadMark, TellsThreadsApart) {
  EXPECT_NE(this_thread(), ThreadMark::none);
  EXPECT_EQ(this_thread(), this_thread());
  ThreadMark other = ThreadMark::none;
  std::thread([&] { other = this_thread(); }).join();
  EXPECT_NE(other, ThreadMark::none);
  EXPECT_NE(other, this_thread());
}

}  // namespace
}  // namespace weir
