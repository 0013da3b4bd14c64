#include "transport/btl/pool.h"

#include <gtest/gtest.h>

namespace weir::btl {
namespace {

struct Record {
  int value = 0;
  Record* next = nullptr;
};

TEST(Pool, CountsWhatIsOut) {
  Pool<Record> pool;
  EXPECT_EQ(pool.out(), 0u);
  std::vector<Record*> taken;
  for (int i = 0; i < 100; ++i) taken.push_back(pool.get());  // more than it makes at a time
  EXPECT_EQ(pool.out(), 100u);
  for (Record* record : taken) pool.put(record);
  EXPECT_EQ(pool.out(), 0u);
}

TEST(Pool, OnePutBackTwiceIsNoZero) {
  Pool<Record> pool;
  Record* const record = pool.get();
  pool.put(record);
  pool.put(record);
  EXPECT_GT(pool.out(), 1u << 30);
}

}  // namespace
}  // namespace weir::btl
