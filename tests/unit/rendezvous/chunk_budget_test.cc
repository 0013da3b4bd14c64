// Chunks and bytes, per port and per peer; one chunk may always be outstanding.
#include "rendezvous/chunk_budget.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(ChunkBudget, BoundsCountAndBytes) {
  ChunkBudget budget(3, 1000);
  ChunkBudget::Use use;
  EXPECT_TRUE(budget.has_room(1000));
  budget.take(use, 600);
  EXPECT_TRUE(budget.has_room(400));
  EXPECT_FALSE(budget.has_room(401));
  budget.take(use, 1);
  budget.take(use, 1);
  EXPECT_FALSE(budget.has_room(1));  // the count
  budget.give_back(use, 2, 601);
  EXPECT_EQ(budget.chunks(), 1u);
  EXPECT_EQ(budget.bytes(), 1u);
  EXPECT_EQ(budget.peak_chunks(), 3u);
  EXPECT_EQ(budget.peak_bytes(), 602u);
}

TEST(ChunkBudget, AlwaysLetsOneChunkOut) {
  for (const std::uint64_t bytes : {0u, 1u, 99u}) {
    ChunkBudget budget(0, bytes);
    ChunkBudget::Use use;
    EXPECT_TRUE(budget.has_room(100));
    budget.take(use, 100);
    EXPECT_FALSE(budget.has_room(1));
    budget.give_back(use, 1, 100);
    EXPECT_TRUE(budget.has_room(100));
  }
}

TEST(ChunkBudget, BoundsEachPeer) {
  ChunkBudget budget(100, 1000);
  ChunkBudget::Use near{.limit = 2};
  ChunkBudget::Use far{.limit = 1};
  budget.take(near, 1);
  EXPECT_FALSE(near.at_limit());
  budget.take(near, 1);
  EXPECT_TRUE(near.at_limit());
  EXPECT_FALSE(far.at_limit());
  budget.take(far, 1);
  EXPECT_TRUE(far.at_limit());
  budget.give_back(near, 1, 1);
  EXPECT_FALSE(near.at_limit());
  EXPECT_TRUE(far.at_limit());
}

TEST(ChunkBudget, AFallenLimitTakesNothingBack) {
  ChunkBudget budget(4, 400);
  ChunkBudget::Use use;
  for (int i = 0; i < 4; ++i) budget.take(use, 100);
  budget.set_limits(2, 150);
  EXPECT_EQ(budget.bytes(), 400u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(budget.has_room(60));
    budget.give_back(use, 1, 100);
  }
  EXPECT_TRUE(budget.has_room(50));
  EXPECT_FALSE(budget.has_room(60));
}

}  // namespace
}  // namespace weir
