#include "base/fifo.h"

#include <gtest/gtest.h>

#include <array>

namespace weir {
namespace {

struct Item {
  Item* next = nullptr;
  int value = 0;
};

TEST(Fifo, IsEmptyAtFirst) {
  Fifo<Item> fifo;
  EXPECT_TRUE(fifo.empty());
  EXPECT_EQ(fifo.size(), 0u);
  EXPECT_EQ(fifo.front(), nullptr);
  EXPECT_EQ(fifo.back(), nullptr);
  EXPECT_EQ(fifo.pop(), nullptr);
}

TEST(Fifo, ReturnsInOrderAndForgetsLinks) {
  std::array<Item, 3> items;
  Fifo<Item> fifo;
  for (int i = 0; i < 3; ++i) {
    items[static_cast<std::size_t>(i)].value = i;
    items[static_cast<std::size_t>(i)].next = &items[0];  // stale: push must not trust it
    fifo.push(&items[static_cast<std::size_t>(i)]);
    EXPECT_EQ(fifo.back(), &items[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(fifo.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    Item* item = fifo.pop();
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(item->value, i);
    EXPECT_EQ(item->next, nullptr);
  }
  EXPECT_TRUE(fifo.empty());
  EXPECT_EQ(fifo.back(), nullptr);
  fifo.push(&items[1]);  // works again after it ran empty
  EXPECT_EQ(fifo.front(), &items[1]);
  EXPECT_EQ(fifo.back(), &items[1]);
}

}  // namespace
}  // namespace weir
