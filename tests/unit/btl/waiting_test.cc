// The two waiting rooms: nothing is lost, doubled or overtaken, and what waits is bounded.
#include "transport/btl/waiting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace weir::btl {
namespace {

WaitingSends::Send numbered(std::uint32_t number) {
  auto bytes = std::make_unique<std::byte[]>(sizeof number);
  std::memcpy(bytes.get(), &number, sizeof number);
  return {nullptr, 3, sizeof number, std::move(bytes), nullptr};
}

std::uint32_t number_of(const WaitingSends::Send& send) {
  std::uint32_t number = 0;
  std::memcpy(&number, send.bytes.get(), sizeof number);
  return number;
}

TEST(WaitingSends, LeaveInTheOrderTheyCame) {
  WaitingSends room;
  EXPECT_FALSE(room.any());
  for (std::uint32_t i = 0; i < 5; ++i) room.push(numbered(i));
  WaitingSends::Send send;
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(room.any());
    ASSERT_TRUE(room.pop(send));
    EXPECT_EQ(number_of(send), i);
  }
  EXPECT_TRUE(room.any()) << "the last one may not be sent yet";
  EXPECT_FALSE(room.pop(send));
  EXPECT_FALSE(room.any());
}

TEST(WaitingSends, OneAtATimeTakesThem) {
  WaitingSends room;
  {
    const WaitingSends::Turn first(room);
    EXPECT_TRUE(first);
    EXPECT_FALSE(WaitingSends::Turn(room));
  }
  EXPECT_TRUE(WaitingSends::Turn(room));
}

// As send_waiting does when there is still no memory.
TEST(WaitingSends, WhatIsPutBackIsNextAgain) {
  WaitingSends room;
  for (std::uint32_t i = 0; i < 3; ++i) room.push(numbered(i));
  WaitingSends::Send send;
  for (int attempt = 0; attempt < 4; ++attempt) {
    ASSERT_TRUE(room.pop(send));
    EXPECT_EQ(number_of(send), 0u);
    room.push_front(std::move(send));
    EXPECT_TRUE(room.any());
  }
  for (std::uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(room.pop(send));
    EXPECT_EQ(number_of(send), i);
  }
  // The last one put back: `any` has to say so again.
  room.push_front(std::move(send));
  EXPECT_TRUE(room.any());
}

TEST(WaitingSends, ThreadsPushWhileOneTakes) {
  constexpr std::uint32_t each = 2000;
  WaitingSends room;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 2; ++t) {
    threads.emplace_back([&room, t] {
      for (std::uint32_t i = 0; i < each; ++i) room.push(numbered(t * each + i));
    });
  }
  std::vector<std::uint32_t> next{0, each};
  WaitingSends::Send send;
  for (std::uint32_t taken = 0; taken < 2 * each;) {
    if (!room.any() || !room.pop(send)) {
      std::this_thread::yield();
      continue;
    }
    ++taken;
    if (taken % 7 == 0) {
      room.push_front(std::move(send));
      --taken;
      ASSERT_TRUE(room.pop(send));
      ++taken;
    }
    const std::uint32_t number = number_of(send);
    ASSERT_EQ(number, next[number / each]);
    ++next[number / each];
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(room.pop(send));
  EXPECT_FALSE(room.any());
}

TEST(EarlyMessages, KeepTheirBytesAndTheirOrder) {
  EarlyMessages room;
  EXPECT_FALSE(room.any());
  std::vector<std::byte> payload(10, std::byte{1});
  ASSERT_TRUE(room.push(PeerId{4}, 66, payload.data(), 10));
  std::fill(payload.begin(), payload.end(), std::byte{2});  // the buffer goes back to the adapter
  ASSERT_TRUE(room.push(PeerId{5}, 67, payload.data(), 3));
  ASSERT_TRUE(room.push(PeerId{5}, 67, nullptr, 0));
  EXPECT_TRUE(room.any());
  const auto messages = room.take();
  EXPECT_FALSE(room.any());
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].from, PeerId{4});
  EXPECT_EQ(messages[0].tag, 66);
  EXPECT_EQ(messages[0].payload, std::vector<std::byte>(10, std::byte{1}));
  EXPECT_EQ(messages[1].payload, std::vector<std::byte>(3, std::byte{2}));
  EXPECT_TRUE(messages[2].payload.empty());
  EXPECT_TRUE(room.take().empty());
}

// A peer of another version, or a hostile one, could send tags that nobody will ever register.
TEST(EarlyMessages, TakeNoMoreThan64MiB) {
  EarlyMessages room;
  const std::vector<std::byte> payload(1 << 20);
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(room.push(PeerId{1}, 9, payload.data(), 1 << 20));
  }
  EXPECT_FALSE(room.push(PeerId{1}, 9, payload.data(), 1));
  EXPECT_TRUE(room.push(PeerId{1}, 9, payload.data(), 0));
  EXPECT_EQ(room.take().size(), 65u);
  EXPECT_TRUE(room.push(PeerId{1}, 9, payload.data(), 1 << 20));  // there is room again
}

}  // namespace
}  // namespace weir::btl
