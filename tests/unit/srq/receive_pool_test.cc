// Every buffer is free, posted, held or withdrawn, whatever is asked of the pool.
#include "srq/receive_pool.h"

#include <gtest/gtest.h>

#include <map>

#include "tools/sim/random.h"

namespace weir {
namespace {

TEST(ReceivePool, PostsWhatItHas) {
  ReceivePool pool(256);
  std::vector<ReceivePost> posts;
  EXPECT_EQ(pool.post(5, posts), 0u);
  pool.add_slab(0x10000, 77, 4);
  EXPECT_EQ(pool.post(3, posts), 3u);
  EXPECT_EQ(pool.post(5, posts), 1u);
  ASSERT_EQ(posts.size(), 4u);
  std::map<std::uint64_t, int> addresses;
  for (const ReceivePost& post : posts) {
    EXPECT_EQ(post.length_bytes, 256u);
    EXPECT_EQ(post.lkey, 77u);
    EXPECT_EQ(post.address, 0x10000u + 256u * index(post.buffer));
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(pool.data(post.buffer)), post.address);
    ++addresses[post.address];
  }
  EXPECT_EQ(addresses.size(), 4u);
}

TEST(ReceivePool, RefusesWhatIsOutOfTurn) {
  ReceivePool pool(64);
  pool.add_slab(0x1000, 1, 2);
  std::vector<ReceivePost> posts;
  EXPECT_FALSE(pool.arrive(BufferId{0}));  // free
  EXPECT_FALSE(pool.arrive(BufferId{9}));
  EXPECT_FALSE(pool.arrive(BufferId::none));
  EXPECT_FALSE(pool.release(BufferId{0}));
  EXPECT_FALSE(pool.release(BufferId::none));
  pool.post(2, posts);
  EXPECT_FALSE(pool.release(BufferId{0}));  // posted
  EXPECT_TRUE(pool.arrive(BufferId{0}));
  EXPECT_FALSE(pool.arrive(BufferId{0}));
  EXPECT_TRUE(pool.release(BufferId{0}));
  EXPECT_FALSE(pool.release(BufferId{0}));
  EXPECT_TRUE(pool.conserved());
}

// Two slabs; the younger goes once its buffers came back, and not before.
TEST(ReceivePool, DropsASlabWhenAllOfItIsWithdrawn) {
  ReceivePool pool(64);
  std::vector<ReceivePost> posts;
  pool.add_slab(0x1000, 1, 4);
  pool.add_slab(0x9000, 2, 4);
  pool.post(8, posts);
  EXPECT_FALSE(pool.retire(5));  // that would leave four
  EXPECT_TRUE(pool.retire(4));
  EXPECT_EQ(pool.active(), 4u);
  EXPECT_TRUE(pool.retiring());
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_FALSE(pool.can_drop());
    EXPECT_EQ(pool.drop_slab(), 0u);
    pool.arrive(BufferId{i});
    pool.release(BufferId{i});
    EXPECT_TRUE(pool.conserved());
  }
  EXPECT_EQ(pool.free(), 4u);
  EXPECT_EQ(pool.withdrawn(), 4u);
  EXPECT_EQ(pool.drop_slab(), 4u);
  EXPECT_EQ(pool.total(), 4u);
  EXPECT_FALSE(pool.retiring());
  EXPECT_FALSE(pool.arrive(BufferId{5}));
}

TEST(ReceivePool, KeepsARetiringBufferThatMayNotBeWithdrawn) {
  ReceivePool pool(64);
  std::vector<ReceivePost> posts;
  pool.add_slab(0x1000, 1, 1);
  pool.add_slab(0x9000, 2, 1);
  pool.post(2, posts);
  pool.retire(1);
  pool.arrive(BufferId{1});
  pool.release(BufferId{1}, [] { return false; });
  EXPECT_EQ(pool.free(), 1u);
  EXPECT_EQ(pool.post(1, posts), 1u);
  pool.arrive(BufferId{1});
  pool.release(BufferId{1});
  EXPECT_TRUE(pool.can_drop());
}

TEST(ReceivePool, RestoresWhatRetired) {
  ReceivePool pool(64);
  std::vector<ReceivePost> posts;
  for (std::uint32_t i = 0; i < 3; ++i) pool.add_slab(0x1000 * (i + 1), 1, 4);
  pool.post(12, posts);
  pool.retire(4);
  EXPECT_EQ(pool.active(), 4u);
  pool.arrive(BufferId{5});
  pool.release(BufferId{5});
  pool.arrive(BufferId{9});
  pool.release(BufferId{9});
  EXPECT_EQ(pool.withdrawn(), 2u);
  pool.restore(6);
  EXPECT_EQ(pool.active(), 8u);
  EXPECT_EQ(pool.withdrawn(), 1u);
  EXPECT_EQ(pool.free(), 1u);
  EXPECT_TRUE(pool.conserved());
}

TEST(ReceivePool, ARestoredSlabsBuffersStayWhenTheyComeBack) {
  ReceivePool pool(64);
  std::vector<ReceivePost> posts;
  pool.add_slab(0x1000, 1, 4);
  pool.add_slab(0x9000, 2, 4);
  pool.post(8, posts);
  for (std::uint32_t i = 4; i < 8; ++i) ASSERT_TRUE(pool.arrive(BufferId{i}));
  ASSERT_TRUE(pool.retire(4));
  pool.restore(8);
  for (std::uint32_t i = 4; i < 8; ++i) EXPECT_TRUE(pool.release(BufferId{i}));
  EXPECT_EQ(pool.withdrawn(), 0u);
  EXPECT_EQ(pool.free(), 4u);
  EXPECT_FALSE(pool.can_drop());
  EXPECT_TRUE(pool.conserved());
}

TEST(ReceivePool, KnowsWhatTheTrafficTook) {
  ReceivePool pool(64);
  std::vector<ReceivePost> posts;
  pool.add_slab(0x1000, 1, 8);
  pool.post(8, posts);
  EXPECT_EQ(pool.peak_used(), 0u);
  for (std::uint32_t i = 0; i < 3; ++i) pool.arrive(BufferId{i});
  for (std::uint32_t i = 0; i < 3; ++i) pool.release(BufferId{i});
  EXPECT_EQ(pool.peak_used(), 3u);
  pool.post(8, posts);
  pool.reset_peak_used();
  pool.arrive(BufferId{7});
  EXPECT_EQ(pool.peak_used(), 1u);
}

TEST(ReceivePool, ConservesItsBuffers) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    sim::Random random(seed);
    ReceivePool pool(64);
    std::vector<ReceivePost> posts;
    for (int step = 0; step < 2000; ++step) {
      const BufferId any{random.between(0, pool.total() + 2)};
      switch (random.below(11)) {
        case 0:
          pool.restore(pool.total());
          if (pool.total() < 60) pool.add_slab(pool.total() * 64, 1, random.between(1, 9));
          break;
        case 1:
        case 2: pool.post(random.between(0, 12), posts); break;
        case 3:
        case 4:
        case 5: pool.arrive(any); break;
        case 6: pool.retire(random.between(0, 40)); break;
        case 7: pool.drop_slab(); break;
        case 8: pool.restore(random.between(0, 60)); break;
        default: pool.release(any, [&] { return random.chance(700); });
      }
      ASSERT_EQ(pool.posted() + pool.held() + pool.free() + pool.withdrawn(), pool.total());
      ASSERT_TRUE(pool.conserved());
    }
  }
}

}  // namespace
}  // namespace weir
