#include "transport/config/rails.h"

#include <gtest/gtest.h>

#include "transport/config/schema.h"
#include "transport/config/window.h"

namespace weir::config {
namespace {

// Whatever a process with one rail may take, so may one with several.
TEST(Rails, TogetherTakeNoMoreThanTheProcessMay) {
  for (const std::uint32_t rails : {1u, 2u, 3u, 4u}) {
    Settings settings = defaults();
    settings.reads_max = 16;
    settings.registration_bytes = 1 << 30;
    const Settings each = for_each_rail(settings, rails);
    EXPECT_LE(each.receive_memory_bytes * rails, settings.receive_memory_bytes);
    EXPECT_LE(each.reads_max * rails, settings.reads_max);
    EXPECT_LE(each.reads_window_max_bytes * rails, settings.reads_window_max_bytes);
    EXPECT_LE(each.registration_bytes * rails, settings.registration_bytes);
    EXPECT_GE((each.receive_memory_bytes + 1) * rails, settings.receive_memory_bytes);
    EXPECT_EQ(receive_window(each).window.most, each.receive_memory_bytes / each.buffer_bytes);
    EXPECT_TRUE(check(each).empty());
  }
}

TEST(Rails, EachHasWhatItCannotDoWithout) {
  Settings settings = defaults();
  settings.window_initial = 100;
  settings.receive_memory_bytes = 100 * settings.buffer_bytes;
  settings.reads_max = 1;
  settings.reads_window_max_bytes = settings.chunk_bytes;
  settings.registration_bytes = 0;
  const Settings each = for_each_rail(settings, 4);
  EXPECT_EQ(each.receive_memory_bytes, settings.receive_memory_bytes);
  EXPECT_EQ(each.reads_max, 1);
  EXPECT_EQ(each.reads_window_max_bytes, settings.chunk_bytes);
  EXPECT_EQ(each.registration_bytes, 0) << "no more than without rails";
  EXPECT_TRUE(check(each).empty());

  settings.reads_window_max_bytes = settings.chunk_bytes / 2;
  EXPECT_EQ(for_each_rail(settings, 4).reads_window_max_bytes, settings.chunk_bytes / 2);
}

TEST(Rails, WhatIsChosenLaterIsDividedLater) {
  const Settings each = for_each_rail(defaults(), 2);
  EXPECT_EQ(each.reads_max, automatic);
  EXPECT_EQ(each.registration_bytes, automatic);
}

}  // namespace
}  // namespace weir::config
