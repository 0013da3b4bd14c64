// Every byte once, boundaries aligned where memory is written, no crumbs, nothing too large.
#include "rendezvous/chunk_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "tools/sim/random.h"

namespace weir {
namespace {

std::vector<std::uint32_t> cut(const ChunkPlan& plan, std::uint64_t length, std::uint64_t written) {
  std::vector<std::uint32_t> chunks;
  std::uint64_t offset = 0;
  while (const std::uint32_t bytes = plan.bytes_at(offset, length, written)) {
    chunks.push_back(bytes);
    offset += bytes;
  }
  EXPECT_EQ(offset, length);
  return chunks;
}

TEST(ChunkPlan, CutsAsTheTableSays) {
  struct Case {
    const char* what;
    std::uint64_t length;
    std::uint64_t written;
    std::vector<std::uint32_t> chunks;
  };
  const ChunkPlan plan({.chunk_bytes = 1024, .alignment_bytes = 64, .max_message_bytes = 4096});
  for (const Case& c : std::vector<Case>{
           {"nothing", 0, 0, {}},
           {"one byte", 1, 0, {1}},
           {"one chunk", 1024, 0, {1024}},
           {"a tiny tail is merged", 1024 + 255, 0, {1279}},
           {"a quarter is a chunk of its own", 1024 + 256, 0, {1024, 256}},
           {"merged into the last of many", 3 * 1024 + 1, 0, {1024, 1024, 1025}},
           {"the first boundary is aligned", 3000, 1, {1023, 1024, 953}},
           {"nearly aligned already", 3000, 63, {961, 1024, 1015}},
           {"one chunk needs no boundary", 1024, 63, {1024}},
       }) {
    EXPECT_EQ(cut(plan, c.length, c.written), c.chunks) << c.what;
  }
}

TEST(ChunkPlan, NeverExceedsTheDevice) {
  const ChunkPlan plan(
      {.chunk_bytes = 1 << 30, .alignment_bytes = 4096, .max_message_bytes = 8192});
  EXPECT_EQ(plan.chunk_bytes(), 8192u);
  EXPECT_EQ(plan.largest_bytes(), 8192u);
  EXPECT_EQ(cut(plan, 8193, 0), (std::vector<std::uint32_t>{8192, 1}));  // a crumb, for it must be
}

TEST(ChunkPlan, TakesAnyConfiguration) {
  const ChunkPlan zero({.chunk_bytes = 0, .alignment_bytes = 0, .max_message_bytes = 0});
  EXPECT_EQ(cut(zero, 3, 5).size(), 3u);
  const ChunkPlan odd({.chunk_bytes = 1000, .alignment_bytes = 4096, .max_message_bytes = 1 << 20});
  EXPECT_EQ(odd.alignment_bytes(), 128u);  // a page would cost the first chunk too much
}

TEST(ChunkPlan, KeepsItsRulesForAnything) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    sim::Random random(seed);
    const ChunkPlan plan({.chunk_bytes = random.between(1, 1 << random.between(1, 20)),
                          .alignment_bytes = 1u << random.between(0, 13),
                          .max_message_bytes = random.between(64, 1 << 20)});
    const std::uint64_t written = random.below(1 << 20);
    const std::uint64_t length =
        random.below(std::uint64_t{plan.chunk_bytes()} * random.between(1, 40));
    const std::vector<std::uint32_t> chunks = cut(plan, length, written);
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      offset += chunks[i];
      ASSERT_LE(chunks[i], plan.largest_bytes()) << "seed " << seed;
      if (i + 1 == chunks.size()) break;
      ASSERT_LE(chunks[i], plan.chunk_bytes()) << "seed " << seed;
      ASSERT_GT(chunks[i] * 4ull, plan.chunk_bytes() * 3ull - 1) << "seed " << seed;
      ASSERT_EQ((written + offset) % plan.alignment_bytes(), 0u) << "seed " << seed;
    }
  }
}

TEST(ChunkPlan, AChunkOfASmallerPlanIsAsThatOneCutsIt) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    sim::Random random(seed);
    ChunkPlan::Config config{.chunk_bytes = random.between(1, 1 << random.between(1, 20)),
                             .alignment_bytes = 1u << random.between(0, 13),
                             .max_message_bytes = random.between(64, 1 << 20)};
    const ChunkPlan plan(config);
    config.chunk_bytes = random.between(1, plan.chunk_bytes());
    const ChunkPlan smaller(config);
    const std::uint64_t written = random.below(1 << 20);
    const std::uint64_t length = random.below(std::uint64_t{plan.chunk_bytes()} * 4);
    const std::uint64_t offset = random.below(length + 1);
    ASSERT_EQ(plan.bytes_at(offset, length, written, smaller.chunk_bytes()),
              smaller.bytes_at(offset, length, written))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace weir
