// What every backend has to keep, as bodies over `Pair`. A backend instantiates the suite with a
// type that has
//
//   static std::unique_ptr<Pair> make(const Options&);   nullptr: could not be made
//
// and adds nothing else.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "tests/contract/pair.h"

namespace weir::contract {

inline constexpr Duration patience = seconds(60);

template <typename Backend>
class Contract : public ::testing::Test {
 protected:
  // The n-th message of a direction: any content, the same at both ends.
  static std::vector<std::byte> message(std::uint64_t number, std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::uint64_t state = number * 0x9e3779b97f4a7c15ull + size;
    for (std::byte& byte : bytes) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      byte = static_cast<std::byte>(state >> 56);
    }
    return bytes;
  }

  static Status send(Side& side, std::uint64_t number, std::size_t size, bool waited = false) {
    return side.send(message(number, size), static_cast<std::uint8_t>(number), waited);
  }

  // Progresses both until `done`. False if that took too long, or a side gave the other up.
  template <typename Done>
  static bool wait(Pair& pair, Done&& done) {
    const Time deadline = pair.now() + patience;
    while (!done()) {
      if (pair.now() >= deadline) return false;
      if (!pair.left().failures.empty() || !pair.right().failures.empty()) {
        for (int i = 0; i < 10; ++i) {  // the other side may know why
          pair.left().progress();
          pair.right().progress();
          pair.pass(milliseconds(1));
        }
        return done();
      }
      pair.left().progress();
      pair.right().progress();
      pair.pass(microseconds(1));
    }
    return true;
  }

  static void expect_all(const Side& side, const std::vector<std::size_t>& sizes,
                         std::uint64_t first = 0) {
    ASSERT_EQ(side.received.size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      ASSERT_EQ(side.received[i].tag, static_cast<std::uint8_t>(first + i)) << i;
      ASSERT_EQ(side.received[i].payload, message(first + i, sizes[i])) << i;
    }
  }

  // Sends messages of `sizes`, progressing both while there is back-pressure, and waits for them.
  static void exchange(Pair& pair, const std::vector<std::size_t>& to_right,
                       const std::vector<std::size_t>& to_left) {
    std::size_t a = 0;
    std::size_t b = 0;
    const std::size_t had_right = pair.right().received.size();
    const std::size_t had_left = pair.left().received.size();
    ASSERT_TRUE(wait(pair, [&] {
      for (int burst = 0; burst < 5; ++burst) {
        if (a < to_right.size() && send(pair.left(), a, to_right[a]) == Status::ok) ++a;
        if (b < to_left.size() && send(pair.right(), b, to_left[b]) == Status::ok) ++b;
      }
      return pair.right().received.size() - had_right == to_right.size() &&
             pair.left().received.size() - had_left == to_left.size();
    }));
    ASSERT_TRUE(pair.left().failures.empty());
    ASSERT_TRUE(pair.right().failures.empty());
  }
};

#define WEIR_PAIR(options)                                     \
  const std::unique_ptr<Pair> pair = TypeParam::make(options); \
  ASSERT_NE(pair, nullptr) << "this backend is not available here"

TYPED_TEST_SUITE_P(Contract);

TYPED_TEST_P(Contract, MessagesOfEverySizeArriveUnharmed) {
  WEIR_PAIR({});
  std::vector<std::size_t> sizes;
  for (std::size_t size = 0; size <= 40; ++size) sizes.push_back(size);
  for (const std::size_t size : {255u, 256u, 257u, 496u, 497u, 512u, 513u, 1000u, 4000u}) {
    sizes.push_back(size);
  }
  sizes.push_back(pair->left().max_payload_bytes());
  this->exchange(*pair, sizes, sizes);
  this->expect_all(pair->right(), sizes);
  this->expect_all(pair->left(), sizes);
}

TYPED_TEST_P(Contract, WhatIsTooLargeIsRefused) {
  WEIR_PAIR({});
  EXPECT_EQ(this->send(pair->left(), 0, pair->left().max_payload_bytes() + 1), Status::too_large);
}

TYPED_TEST_P(Contract, OneDirectionAloneKeepsFlowing) {
  WEIR_PAIR({});
  const std::vector<std::size_t> sizes(1500, 64);
  this->exchange(*pair, sizes, {});
  this->expect_all(pair->right(), sizes);
}

TYPED_TEST_P(Contract, BothDirectionsAtOnceKeepTheirOrder) {
  WEIR_PAIR({});
  std::vector<std::size_t> a, b;
  for (std::size_t i = 0; i < 1000; ++i) {
    a.push_back(i % 7 == 0 ? 3000 : i % 40);
    b.push_back(i % 11 == 0 ? 2000 : i % 300);
  }
  this->exchange(*pair, a, b);
  this->expect_all(pair->right(), a);
  this->expect_all(pair->left(), b);
}

TYPED_TEST_P(Contract, BothAskForTheConnectionAtOnce) {
  WEIR_PAIR({});
  ASSERT_EQ(this->send(pair->left(), 0, 10), Status::ok);
  ASSERT_EQ(this->send(pair->right(), 0, 20), Status::ok);
  ASSERT_TRUE(this->wait(*pair, [&] {
    return pair->left().received.size() == 1 && pair->right().received.size() == 1;
  }));
  EXPECT_EQ(pair->left().counters().connections, 1u);
  EXPECT_EQ(pair->right().counters().connections, 1u);
}

TYPED_TEST_P(Contract, AConnectionIsMadeWhileThePeerComputes) {
  WEIR_PAIR({});
  ASSERT_EQ(this->send(pair->left(), 0, 100, true), Status::ok);
  for (int i = 0; i < 200 && pair->left().delivered == 0; ++i) {
    pair->left().progress();
    pair->pass(milliseconds(5));
  }
  EXPECT_EQ(pair->left().delivered, 1u);  // its adapter took it, the process did not look yet
  EXPECT_TRUE(pair->right().received.empty());
  ASSERT_TRUE(this->wait(*pair, [&] { return pair->right().received.size() == 1; }));
}

TYPED_TEST_P(Contract, AHeldFrameLeavesAlthoughTheSenderComputes) {
  WEIR_PAIR({.window_initial = 32});
  const std::vector<std::size_t> first(1, 8);
  this->exchange(*pair, first, first);
  for (std::uint64_t i = 1; i <= 7; ++i) ASSERT_EQ(this->send(pair->left(), i, 8), Status::ok);
  for (int i = 0; i < 200 && pair->right().received.size() < 8; ++i) {
    pair->pass(milliseconds(5));  // the left side makes no call at all
    pair->right().progress();
  }
  EXPECT_EQ(pair->right().received.size(), 8u);
}

TYPED_TEST_P(Contract, AFloodMeetsAReceiverThatComputes) {
  const Options options;
  WEIR_PAIR(options);
  const std::vector<std::size_t> first(1, 1000);
  this->exchange(*pair, first, first);
  std::uint64_t sent = 1;
  bool pushed_back = false;
  for (int round = 0; round < 400; ++round) {
    for (int i = 0; i < 20; ++i) {
      const Status status = this->send(pair->left(), sent, 1000);
      if (status == Status::back_pressure) {
        pushed_back = true;
        break;
      }
      ASSERT_EQ(status, Status::ok);
      ++sent;
    }
    pair->left().progress();
    pair->pass(microseconds(50));
  }
  EXPECT_TRUE(pushed_back);
  EXPECT_EQ(pair->right().received.size(), 1u);
  EXPECT_GT(sent, options.pending_frames);
  ASSERT_TRUE(this->wait(*pair, [&] { return pair->right().received.size() == sent; }));
  this->expect_all(pair->right(), std::vector<std::size_t>(sent, 1000));
  EXPECT_LE(pair->right().counters().window_peak, options.window_max);
  EXPECT_LE(pair->right().counters().receive_bytes_peak,
            std::uint64_t{options.window_max} * options.buffer_bytes);
  // And it goes on after it.
  ASSERT_TRUE(this->wait(*pair, [&] { return this->send(pair->left(), sent, 50) == Status::ok; }));
  ASSERT_TRUE(this->wait(*pair, [&] { return pair->right().received.size() == sent + 1; }));
}

// A burst makes the window grow; light traffic after it gives the memory back, down to the start.
TYPED_TEST_P(Contract, MemoryOfABurstIsGivenBack) {
  Options options;
  options.window_max = 256;
  options.shrink_after = milliseconds(40);
  WEIR_PAIR(options);
  const std::vector<std::size_t> first(1, 8);
  this->exchange(*pair, first, first);
  std::uint64_t sent = 1;
  while (pair->right().counters().window < 64 && sent < 5000) {
    for (int i = 0; i < 32; ++i) {
      if (this->send(pair->left(), sent, 1000) == Status::ok) ++sent;
    }
    pair->left().progress();
    pair->pass(milliseconds(1));  // the receiver computes
    ASSERT_TRUE(this->wait(*pair, [&] { return pair->right().received.size() == sent; }));
  }
  const std::uint64_t grown = pair->right().counters().receive_bytes;
  ASSERT_GE(grown, 64u * options.buffer_bytes);

  ASSERT_TRUE(this->wait(*pair,
                         [&] {
                           if (this->send(pair->left(), sent, 8) == Status::ok) ++sent;
                           pair->pass(milliseconds(1));
                           return pair->right().counters().receive_bytes ==
                                  options.window_initial * options.buffer_bytes;
                         }))
      << pair->right().counters().receive_bytes << " bytes, W " << pair->right().counters().window
      << ", grown " << pair->right().counters().window_grows << ", by demand "
      << pair->right().counters().window_demands << ", shrunk "
      << pair->right().counters().window_shrinks << ", frames "
      << pair->right().counters().frames_received << ", credits sent "
      << pair->right().counters().control_sent;
  EXPECT_GE(pair->right().counters().window_shrinks, 3u);
  EXPECT_GE(pair->right().counters().receive_bytes_peak, grown);
  ASSERT_TRUE(this->wait(*pair, [&] { return pair->right().received.size() == sent; }));

  // And the next burst finds its way.
  for (int i = 0; i < 20; ++i) {
    if (this->send(pair->left(), sent, 1000) == Status::ok) ++sent;
  }
  ASSERT_TRUE(this->wait(*pair, [&] { return pair->right().received.size() == sent; }));
}

TYPED_TEST_P(Contract, WhoWaitsForItsSlotsGetsThemBack) {
  WEIR_PAIR({});
  std::uint64_t sent = 0;
  ASSERT_TRUE(this->wait(*pair, [&] {
    if (sent < 300 && this->send(pair->left(), sent, (sent * 37) % 3000, true) == Status::ok)
      ++sent;
    return sent == 300 && pair->left().delivered == 300;
  }));
  EXPECT_EQ(pair->left().undelivered, 0u);
  ASSERT_TRUE(this->wait(*pair, [&] { return pair->right().received.size() == 300; }));
}

TYPED_TEST_P(Contract, LeavingIsNoFailureAndComingBackWorks) {
  WEIR_PAIR({});
  const std::vector<std::size_t> sizes(20, 100);
  for (int round = 0; round < 3; ++round) {
    pair->left().received.clear();
    pair->right().received.clear();
    this->exchange(*pair, sizes, sizes);
    this->expect_all(pair->right(), sizes);
    this->expect_all(pair->left(), sizes);
    EXPECT_TRUE(pair->left().close());
    EXPECT_TRUE(pair->right().close());
    for (int i = 0; i < 10; ++i) {
      pair->left().progress();
      pair->right().progress();
      pair->pass(milliseconds(1));
    }
    EXPECT_TRUE(pair->left().failures.empty());
    EXPECT_TRUE(pair->right().failures.empty());
  }
}

TYPED_TEST_P(Contract, LeavingSendsWhatIsPendingFirst) {
  WEIR_PAIR({});
  std::uint64_t sent = 0;
  while (sent < 20 && this->send(pair->left(), sent, 500) == Status::ok) ++sent;
  ASSERT_EQ(sent, 20u);
  // The other side has to take part: credits come from it.
  std::uint64_t arrived = 0;
  ASSERT_TRUE(this->wait(*pair, [&] {
    arrived = pair->right().received.size();
    return arrived > 0;
  }));
  ASSERT_TRUE(this->wait(*pair, [&] { return pair->right().received.size() == sent; }));
  EXPECT_TRUE(pair->left().close());
  this->expect_all(pair->right(), std::vector<std::size_t>(sent, 500));
}

TYPED_TEST_P(Contract, ADeadPeerIsReportedToWhoSendsToIt) {
  WEIR_PAIR({});
  const std::vector<std::size_t> sizes(5, 100);
  this->exchange(*pair, sizes, sizes);
  ASSERT_TRUE(pair->kill_right()) << "this backend cannot kill a process";
  const Time deadline = pair->now() + patience;
  while (pair->left().failures.empty() && pair->now() < deadline) {
    this->send(pair->left(), 9, 100, true);
    pair->left().progress();
    pair->pass(milliseconds(1));
  }
  ASSERT_EQ(pair->left().failures.size(), 1u);
  EXPECT_EQ(this->send(pair->left(), 9, 100), Status::peer_failed);
  for (int i = 0; i < 10; ++i) pair->left().progress();
  EXPECT_EQ(pair->left().failures.size(), 1u);
  EXPECT_TRUE(pair->left().close());
}

REGISTER_TYPED_TEST_SUITE_P(Contract, MessagesOfEverySizeArriveUnharmed, WhatIsTooLargeIsRefused,
                            OneDirectionAloneKeepsFlowing, BothDirectionsAtOnceKeepTheirOrder,
                            BothAskForTheConnectionAtOnce, AConnectionIsMadeWhileThePeerComputes,
                            AHeldFrameLeavesAlthoughTheSenderComputes,
                            AFloodMeetsAReceiverThatComputes, MemoryOfABurstIsGivenBack,
                            WhoWaitsForItsSlotsGetsThemBack, LeavingIsNoFailureAndComingBackWorks,
                            LeavingSendsWhatIsPendingFirst, ADeadPeerIsReportedToWhoSendsToIt);

}  // namespace weir::contract
