// Credits: never more than the window covers, and never so few that a peer waits for ever.
#include "flowctl/eager_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tools/sim/random.h"

namespace weir {
namespace {

using Share = EagerWindow::Share;

// From here on the peer is active; it holds nothing.
void join_and_send(EagerWindow& eager, Share& share) {
  eager.join(share);
  eager.overcommit(share);
  while (eager.spend(share)) continue;
}

TEST(EagerWindow, SharesTheWindowEqually) {
  EagerWindow eager({.control_reserve = 2, .min_credits = 2, .max_credits = 256});
  eager.set_window(80);  // slack 10
  Share a, b;
  join_and_send(eager, a);
  EXPECT_EQ(eager.target(a), 68u);
  join_and_send(eager, b);
  EXPECT_EQ(eager.target(a), 33u);
  EXPECT_EQ(eager.top_up(a, UINT16_MAX), 33u);
  EXPECT_EQ(eager.top_up(a, UINT16_MAX), 0u);
  EXPECT_EQ(eager.top_up(b, 10), 10u);
  EXPECT_EQ(eager.top_up(b, UINT16_MAX), 23u);
  EXPECT_EQ(eager.headroom(), 0u);
}

// Of 100 peers 4 send; with equal shares each would have its least.
TEST(EagerWindow, ActivePeersHaveWhatIdleOnesDoNotNeed) {
  EagerWindow eager({.control_reserve = 2, .min_credits = 2, .max_credits = 256});
  eager.set_window(1024);  // 1024 - 128 - 100 * 2 = 696
  std::vector<Share> shares(100);
  for (Share& share : shares) join_and_send(eager, share);
  for (Share& share : shares) eager.top_up(share, UINT16_MAX);
  const auto play = [&](std::size_t active) {
    for (std::size_t frames = 0; frames < 2 * 1024; frames += active) {  // two epochs
      for (std::size_t i = 0; i < active; ++i) {
        eager.top_up(shares[i], UINT16_MAX);
        ASSERT_TRUE(eager.spend(shares[i]));
      }
    }
    for (std::size_t i = 0; i < shares.size(); ++i) {
      ASSERT_EQ(eager.is_active(shares[i]), i < active) << i;
    }
  };
  play(4);
  EXPECT_EQ(eager.target(shares[0]), (696u - 96 * 2) / 4);
  EXPECT_EQ(eager.target(shares[50]), 2u);
  while (shares[3].out > 2) eager.spend(shares[3]);
  for (int i = 0; i < 3; ++i) eager.top_up(shares[i], UINT16_MAX);
  EXPECT_TRUE(eager.low(shares[3]));
  EXPECT_TRUE(eager.short_of(shares[3]));  // others hold it
  for (Share& share : shares) eager.give_back(share, eager.excess(share));
  EXPECT_FALSE(eager.short_of(shares[3]));
  for (int i = 0; i < 4; ++i) {
    eager.top_up(shares[i], UINT16_MAX);
    EXPECT_EQ(shares[i].out, eager.target(shares[i]));
  }
  for (Share& share : shares) EXPECT_GE(share.out, 2u);
  play(100);
  EXPECT_EQ(eager.target(shares[0]), 6u);
  EXPECT_EQ(eager.target(shares[99]), 6u);
}

// The first of ten could use all of the window. Half of it is for the peers that have come.
TEST(EagerWindow, WhatIsLentLeavesTheLeastOfThoseToCome) {
  EagerWindow eager({.control_reserve = 2, .min_credits = 2, .max_credits = 256});
  eager.set_window(64);  // slack 8
  eager.expect(6, 64);
  Share first;
  join_and_send(eager, first);
  EXPECT_EQ(eager.top_up(first, UINT16_MAX), 64u - 8 - 2 - 5 * 4);
  eager.expect(1000, 64);
  Share second;
  join_and_send(eager, second);
  EXPECT_EQ(eager.available(second), 2u);  // its least
  eager.give_back(first, first.out);
  EXPECT_EQ(eager.available(second), (64u - 8 - 4) / 2 - 2);  // the first one's least
}

// Peers that compute for as long as they like are not idle for that.
TEST(EagerWindow, NobodyIsIdleWhileNobodySends) {
  EagerWindow eager({.control_reserve = 2, .min_credits = 2, .max_credits = 256});
  eager.set_window(64);
  Share a, b, gone;
  join_and_send(eager, gone);
  join_and_send(eager, a);
  join_and_send(eager, b);
  eager.leave(gone);
  EXPECT_FALSE(eager.is_active(gone));
  EXPECT_EQ(eager.target(a), 26u);
  for (int i = 0; i < 100; ++i) {
    eager.top_up(a, UINT16_MAX);
    ASSERT_TRUE(eager.spend(a));
  }
  EXPECT_TRUE(eager.is_active(b));
  EXPECT_EQ(eager.target(b), 26u);
}

TEST(EagerWindow, APeerWithoutCreditsCannotSpend) {
  EagerWindow eager({});
  eager.set_window(64);
  Share a;
  EXPECT_FALSE(eager.spend(a));
  eager.join(a);
  EXPECT_FALSE(eager.spend(a));
  ASSERT_EQ(eager.top_up(a, 1), 1u);
  EXPECT_TRUE(eager.spend(a));
  EXPECT_FALSE(eager.spend(a));
}

TEST(EagerWindow, APeerCannotGiveBackWhatItNeverHad) {
  EagerWindow eager({});
  eager.set_window(64);
  Share a;
  eager.join(a);
  ASSERT_EQ(eager.top_up(a, 2), 2u);
  EXPECT_FALSE(eager.give_back(a, 3));
  EXPECT_TRUE(eager.give_back(a, 2));
  EXPECT_FALSE(eager.give_back(a, 1));
}

TEST(EagerWindow, IsLowWhenMoreThanHalfIsSpent) {
  EagerWindow eager({.control_reserve = 1, .min_credits = 1, .max_credits = 8});
  eager.set_window(64);
  Share a;
  EXPECT_FALSE(eager.low(a));
  join_and_send(eager, a);
  EXPECT_TRUE(eager.low(a));
  eager.top_up(a, UINT16_MAX);
  ASSERT_EQ(a.out, 8u);
  for (int i = 0; i < 4; ++i) eager.spend(a);
  EXPECT_FALSE(eager.low(a));
  eager.spend(a);
  EXPECT_TRUE(eager.low(a));
}

// What we send to the peer will carry its credits.
TEST(EagerWindow, APeerWhoseMessagesAreAnsweredIsLowWhenNextToNothingIsLeft) {
  EagerWindow eager({.control_reserve = 2, .min_credits = 2, .max_credits = 8});
  eager.set_window(64);
  Share a;
  join_and_send(eager, a);
  const auto spent_when_low = [&] {
    eager.top_up(a, UINT16_MAX);
    std::uint32_t spent = 0;
    while (!eager.low(a)) {
      eager.spend(a);
      ++spent;
    }
    return spent;
  };
  EXPECT_EQ(spent_when_low(), 5u);
  for (int i = 0; i < 200; ++i) {
    eager.top_up(a, UINT16_MAX);
    eager.spend(a);
    eager.note_went(a);
  }
  EXPECT_EQ(spent_when_low(), 8u);
  EXPECT_TRUE(eager.is_answered(a));
  // One answer to three frames comes too late; old answers are soon forgotten.
  int frames = 0;
  for (; eager.is_answered(a); ++frames) {
    eager.top_up(a, UINT16_MAX);
    eager.spend(a);
    if (frames % 3 == 0) eager.note_went(a);
  }
  EXPECT_LT(frames, 200);
  EXPECT_EQ(spent_when_low(), 5u);
}

// The one message that made the connection is no answer.
TEST(EagerWindow, OneMessageIsNoTraffic) {
  EagerWindow eager({});
  eager.set_window(64);
  Share a;
  eager.join(a);
  eager.note_went(a);
  eager.top_up(a, UINT16_MAX);
  eager.spend(a);
  EXPECT_FALSE(eager.is_answered(a));
}

TEST(EagerWindow, WhatAPeerThatLeftCouldClaimIsOthers) {
  EagerWindow eager({.control_reserve = 2, .min_credits = 4, .max_credits = 256});
  eager.set_window(80);
  Share stays;
  join_and_send(eager, stays);
  const std::uint32_t all = eager.available(stays);
  for (int i = 0; i < 3; ++i) {
    Share leaves;
    join_and_send(eager, leaves);
    EXPECT_LT(eager.available(stays), all);
    eager.leave(leaves);
    EXPECT_EQ(eager.available(stays), all);
  }
}

// A buffer that holds a message stands for none of the credits that are granted.
TEST(EagerWindow, OnlyABufferTooManyIsSpared) {
  EagerWindow eager({.control_reserve = 2, .min_credits = 2, .max_credits = 256});
  eager.set_window(80);  // slack 10
  Share a;
  join_and_send(eager, a);
  ASSERT_EQ(eager.top_up(a, UINT16_MAX), 68u);
  eager.set_held(1);
  EXPECT_TRUE(eager.can_spare_held());  // the slack of 79 buffers is 9
  eager.set_held(2);
  EXPECT_FALSE(eager.can_spare_held());
}

// One took everything before the second came, and falls silent: the second still gets its least,
// again and again.
TEST(EagerWindow, ASilentHoarderStopsNobody) {
  EagerWindow eager({.control_reserve = 2, .min_credits = 2, .max_credits = 256});
  eager.set_window(16);
  Share hoarder, late;
  join_and_send(eager, hoarder);
  eager.top_up(hoarder, UINT16_MAX);
  const std::uint32_t floor = eager.floor(late);
  EXPECT_GT(floor, 16u);
  eager.set_window(floor);
  join_and_send(eager, late);
  for (int i = 0; i < 100; ++i) {
    ASSERT_GE(eager.top_up(late, UINT16_MAX), 1u) << i;
    eager.top_up(hoarder, UINT16_MAX);
    while (eager.spend(late)) {
    }
    eager.top_up(hoarder, UINT16_MAX);
  }
  EXPECT_FALSE(eager.overdrawn());
}

TEST(EagerWindow, TheFloorCoversEveryPeer) {
  for (const std::uint32_t reserve : {1u, 2u, 3u}) {
    for (const std::uint32_t least : {1u, 2u, 5u}) {
      EagerWindow eager({.control_reserve = reserve, .min_credits = least, .max_credits = 64});
      eager.set_window(1);
      std::vector<Share> shares(600);
      std::uint32_t window = 1;
      for (Share& share : shares) {
        window = std::max(window, eager.floor(share));
        eager.set_window(window);
        eager.join(share);
        eager.top_up(share, UINT16_MAX);
        ASSERT_GE(share.out, least);
        ASSERT_FALSE(eager.overdrawn());
      }
    }
  }
}

TEST(EagerWindow, OverdrawnPeersStillGetTheirLeast) {
  EagerWindow eager({.control_reserve = 2, .min_credits = 2, .max_credits = 64});
  eager.set_window(8);
  std::vector<Share> shares(10);
  for (Share& share : shares) eager.join(share);
  EXPECT_TRUE(eager.overdrawn());
  EXPECT_EQ(eager.top_up(shares[0], UINT16_MAX), 0u);
  EXPECT_EQ(eager.overcommit(shares[0]), 2u);
  EXPECT_EQ(eager.overcommit(shares[0]), 0u);
}

// The invariant of the header, under everything that can happen to it.
TEST(EagerWindow, NeverGivesMoreThanTheWindowCovers) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    sim::Random random(seed);
    const EagerWindow::Config config{.control_reserve = random.between(0, 3),
                                     .min_credits = random.between(1, 4),
                                     .max_credits = random.between(0, 64)};
    EagerWindow eager(config);
    std::uint32_t window = random.between(1, 300);
    eager.set_window(window);
    std::vector<Share> shares(random.between(1, 12));
    std::uint32_t held = 0;
    std::uint32_t joined = 0;
    for (int step = 0; step < 3000; ++step) {
      Share& share = shares[random.below(shares.size())];
      const std::uint32_t before = eager.out();
      std::uint32_t given = 0;
      switch (random.below(9)) {
        case 0:
          joined += share.joined ? 0 : 1;
          eager.join(share);
          break;
        case 1:
          if (random.chance(200)) {
            joined -= share.joined ? 1 : 0;
            eager.leave(share);
          }
          break;
        case 2:
          if (random.chance(100)) {
            window += random.between(0, 40);
            eager.set_window(window);
          }
          break;
        case 3:
          held -= std::min(held, random.between(0, 5));
          eager.set_held(held);
          break;
        case 4:
          if (random.chance(100)) eager.take_back(share);
          break;
        case 5:
        case 6:
          if (eager.spend(share)) eager.set_held(++held);
          break;
        default: {
          const std::uint32_t could = eager.available(share);
          given = eager.top_up(share, random.chance(500) ? UINT16_MAX : random.between(0, 9));
          ASSERT_LE(given, could);
          ASSERT_EQ(eager.out(), before + given);
          if (given > 0) {
            ASSERT_LE(share.out, eager.target(share));
            ASSERT_LE(
                eager.out() + held + EagerWindow::slack(window) + joined * config.control_reserve,
                window)
                << "seed " << seed << " step " << step;
          }
        }
      }
      std::uint32_t sum = 0;
      for (const Share& each : shares) sum += each.out;
      ASSERT_EQ(sum, eager.out());
      ASSERT_EQ(joined, eager.peers());
    }
  }
}

// Whoever has spent everything gets something back once nothing is held, unless overdrawn.
TEST(EagerWindow, NobodyStarvesWhileTheOthersAreSilent) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    sim::Random random(seed);
    EagerWindow eager({.control_reserve = random.between(0, 3),
                       .min_credits = random.between(1, 4),
                       .max_credits = random.between(0, 64)});
    std::uint32_t window = random.between(1, 64);
    eager.set_window(window);
    std::vector<Share> shares(random.between(1, 8));
    for (Share& share : shares) {
      window = std::max(window, eager.floor(share));
      eager.set_window(window);
      eager.join(share);
      eager.top_up(share, UINT16_MAX);
    }
    for (int step = 0; step < 500; ++step) {
      Share& share = shares[random.below(shares.size())];
      if (random.chance(500)) eager.spend(share);
      if (random.chance(500)) eager.top_up(share, UINT16_MAX);
      ASSERT_FALSE(eager.overdrawn()) << seed;
      for (const Share& each : shares) {
        if (each.out == 0) {
          ASSERT_GE(eager.available(each), 1u) << seed;
        }
      }
    }
  }
}

}  // namespace
}  // namespace weir
