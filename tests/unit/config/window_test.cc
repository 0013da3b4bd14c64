#include "transport/config/window.h"

#include <gtest/gtest.h>

#include "transport/config/schema.h"

namespace weir::config {
namespace {

TEST(Window, AutoIsAFewBuffersMoreForManyPeersAndNoneUnasked) {
  const ReceiveWindow receive = receive_window(defaults());
  EXPECT_EQ(receive.window.initial, 8u);
  EXPECT_EQ(receive.window.max, 512u);
  EXPECT_EQ(receive.window.most, (64u << 20) / 8704);
  EXPECT_EQ(receive.unasked, 256u);
}

TEST(Window, WhatIsSetStaysAndMayGrowUnasked) {
  Settings settings = defaults();
  settings.window_max = 64;
  const ReceiveWindow receive = receive_window(settings);
  EXPECT_EQ(receive.window.max, 64u);
  EXPECT_EQ(receive.window.most, 0u);
  EXPECT_EQ(receive.unasked, UINT32_MAX);
}

TEST(Window, NoMoreThanReceiveMemoryHasRoomFor) {
  Settings settings = defaults();
  settings.buffer_bytes = 1 << 20;
  EXPECT_EQ(receive_window(settings).window.max, 64u);
  EXPECT_EQ(receive_window(settings).window.most, 64u);
  settings.window_max = 100;
  EXPECT_EQ(receive_window(settings).window.max, 64u);
  settings.receive_memory_bytes = 1;
  EXPECT_EQ(receive_window(settings).window.max, 1u);
}

TEST(Window, NorAtTheStart) {
  Settings settings = defaults();
  settings.window_initial = 16;
  settings.buffer_bytes = 128 << 10;
  settings.receive_memory_bytes = 1 << 20;
  EXPECT_EQ(receive_window(settings).window.initial, 8u);
}

TEST(Window, AutoIsNotLessThanTheFirstBuffers) {
  Settings settings = defaults();
  settings.window_initial = 600;
  EXPECT_EQ(receive_window(settings).window.max, 600u);
}

}  // namespace
}  // namespace weir::config
