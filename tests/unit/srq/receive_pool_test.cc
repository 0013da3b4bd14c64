// Every buffer is free, posted or held, whatever is asked of the pool.
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

TEST(ReceivePool, ConservesItsBuffers) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    sim::Random random(seed);
    ReceivePool pool(64);
    std::vector<ReceivePost> posts;
    for (int step = 0; step < 2000; ++step) {
      const BufferId any{random.between(0, pool.total() + 2)};
      switch (random.below(8)) {
        case 0:
          if (pool.total() < 60) pool.add_slab(pool.total() * 64, 1, random.between(0, 9));
          break;
        case 1:
        case 2: pool.post(random.between(0, 12), posts); break;
        case 3:
        case 4:
        case 5: pool.arrive(any); break;
        default: pool.release(any);
      }
      ASSERT_EQ(pool.posted() + pool.held() + pool.free(), pool.total());
      ASSERT_TRUE(pool.conserved());
    }
  }
}

}  // namespace
}  // namespace weir
