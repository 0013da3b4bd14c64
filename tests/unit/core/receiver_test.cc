// The receiving side by itself: no peers, no frames, only buffers, shares and the window.
#include "transport/core/receiver.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "srq/rnr_timer.h"
#include "tests/unit/core/rig.h"

namespace weir {
namespace {

struct Side final : Receiver::Listener {
  CoreConfig config;
  Counters counters;
  Outbox out;
  int changed = 0;
  int exceeded = 0;
  Receiver::Share* greedy = nullptr;  // takes what room there is
  std::vector<std::unique_ptr<std::byte[]>> slabs;
  std::vector<BufferId> posted;
  Receiver receiver{config, counters, *this};

  explicit Side(const CoreConfig& with = rig::small_config()) : config(with) {
    receiver.start(out);
    settle();
  }
  void on_shares_changed(Outbox&) override {
    ++changed;
    if (greedy != nullptr) receiver.top_up(*greedy);
  }
  void on_shares_exceeded(Outbox&) override { ++exceeded; }

  // Answers once for the memory.
  void give_slab() {
    const std::uint32_t count = std::exchange(out.slab_buffers, 0);
    slabs.push_back(std::make_unique<std::byte[]>(std::size_t{count} * config.buffer_bytes));
    receiver.on_slab(reinterpret_cast<std::uint64_t>(slabs.back().get()), 3, count, out);
  }
  // Answers for all memory, takes receives as posted.
  void settle() {
    while (out.slab_buffers > 0) give_slab();
    for (const ReceivePost& post : out.receives) posted.push_back(post.buffer);
    out.receives.clear();
  }
  // Looks at the window, which nobody uses, until it is `least` or no look changes that.
  void look_down_to(std::uint32_t least) {
    for (int i = 0; i < 100 && counters.window > least; ++i) {
      receiver.on_timer(receiver.next_look(), out);
    }
  }
  // A frame comes into the oldest buffer.
  BufferId arrive() {
    const BufferId buffer = posted.front();
    posted.erase(posted.begin());
    EXPECT_TRUE(receiver.arrive(buffer));
    return buffer;
  }
};

TEST(Receiver, BeginsWithItsWindowPostedAndItsLimitArmed) {
  Side side;
  EXPECT_EQ(side.posted.size(), 16u);
  EXPECT_TRUE(side.out.arm);
  EXPECT_EQ(side.out.srq_arm.limit, 8u);
  EXPECT_EQ(side.counters.receives_posted, 16u);
  EXPECT_TRUE(side.receiver.conserved(0));
}

TEST(Receiver, ABufferThatIsNotPostedCannotBeFilled) {
  Side side;
  const BufferId buffer = side.arrive();
  EXPECT_FALSE(side.receiver.arrive(buffer));
  EXPECT_FALSE(side.receiver.arrive(BufferId{1000}));
  EXPECT_EQ(side.counters.receives_held, 1u);
}

TEST(Receiver, WhatIsReleasedIsPostedInOneGo) {
  Side side;
  const std::uint32_t slack = side.receiver.slack();
  ASSERT_EQ(slack, 2u);
  side.receiver.release(side.arrive());
  side.receiver.post(side.out);
  EXPECT_TRUE(side.out.receives.empty());
  side.receiver.release(side.arrive());
  side.receiver.post(side.out);
  EXPECT_EQ(side.out.receives.size(), 2u);
  EXPECT_EQ(side.counters.receives_posted, 16u);
}

TEST(Receiver, CreditsThatAreOutAndBuffersThatAreHeldStayWithinTheWindow) {
  Side side;
  Receiver::Share shares[3];
  for (Receiver::Share& share : shares) {
    side.receiver.admit(share, side.out);
    side.settle();
  }
  std::uint32_t out = 0;
  for (Receiver::Share& share : shares) out += side.receiver.first_credits(share);
  const auto window = static_cast<std::uint32_t>(side.counters.window);
  const std::uint32_t reserve = 3 * side.config.credits.control_reserve;
  EXPECT_LE(out, window - side.receiver.slack() - reserve);
  EXPECT_TRUE(side.receiver.conserved(out));

  // A peer spends what it has; as long as its buffers are held nobody gets credits for them.
  std::uint32_t held = 0;
  while (side.receiver.spend(shares[0])) {
    --out;
    ++held;
    side.arrive();
    for (Receiver::Share& share : shares) out += side.receiver.top_up(share);
    ASSERT_LE(out + held,
              static_cast<std::uint32_t>(side.counters.window) - side.receiver.slack() - reserve);
    ASSERT_TRUE(side.receiver.conserved(out));
    if (held > 64) FAIL() << "credits without end";
  }
  EXPECT_GT(held, 0u);
}

// Where connections part, each peer may send one frame that no credit pays for.
TEST(Receiver, AnAnswerToTheQuestionWhetherToPartHasABuffer) {
  CoreConfig config = rig::small_config();
  config.window = {.initial = 16, .max = 16};
  Side without{config};
  config.connections_max = 3;
  Side with{config};
  for (Side* side : {&without, &with}) {
    Receiver::Share shares[3];
    for (Receiver::Share& share : shares) side->receiver.admit(share, side->out);
    EXPECT_EQ(side->receiver.covers_all_peers(), side == &without);
  }
}

TEST(Receiver, NobodySpendsOrGivesBackWhatItHasNot) {
  Side side;
  Receiver::Share share;
  side.receiver.admit(share, side.out);
  EXPECT_FALSE(side.receiver.spend(share));
  const std::uint32_t credits = side.receiver.first_credits(share);
  EXPECT_FALSE(side.receiver.give_back(share, credits + 1));
  EXPECT_TRUE(side.receiver.conserved(credits));
  EXPECT_TRUE(side.receiver.give_back(share, credits));
  EXPECT_TRUE(side.receiver.conserved(0));
}

TEST(Receiver, WhatTheWindowGrowsByForAPeerIsNotGivenToOthers) {
  CoreConfig config = rig::small_config();
  config.credits.max_credits = 64;
  Side side(config);
  Receiver::Share first;
  Receiver::Share second;
  side.receiver.admit(first, side.out);
  side.settle();
  side.receiver.first_credits(first);
  ASSERT_TRUE(side.receiver.spend(first));  // it is active, and may have the whole window
  side.receiver.top_up(first);
  side.greedy = &first;
  side.receiver.admit(second, side.out);
  side.settle();
  ASSERT_GT(side.counters.window, 16u);
  EXPECT_GE(side.receiver.first_credits(second), config.credits.min_credits);
  EXPECT_EQ(side.counters.credits_overcommitted, 0u);
}

// Of eight credits.
TEST(Receiver, AFrameIsWorthAQuarterOfAShareOrTheLast) {
  Side side;
  Receiver::Share share;
  side.receiver.admit(share, side.out);
  side.settle();
  side.receiver.first_credits(share);
  side.receiver.top_up(share);
  ASSERT_EQ(share.out, 8u);
  for (std::uint32_t spent = 1; spent <= 8; ++spent) {
    ASSERT_TRUE(side.receiver.spend(share));
    EXPECT_EQ(side.receiver.is_worth_a_frame(share), spent >= 2) << spent;
  }
}

TEST(Receiver, CreditsOfAPeerThatLeavesAreOthers) {
  Side side;
  Receiver::Share leaves;
  side.receiver.admit(leaves, side.out);
  side.receiver.first_credits(leaves);
  side.receiver.leave(leaves);
  EXPECT_TRUE(side.receiver.conserved(0));
}

TEST(Receiver, TheLimitDoublesTheWindowAndIsArmedAgain) {
  Side side;
  Receiver::Share share;
  side.receiver.admit(share, side.out);
  side.settle();
  for (int i = 0; i < 12; ++i) side.arrive();
  side.out.arm = false;
  side.changed = 0;
  side.receiver.on_srq_limit(side.out);
  side.settle();
  EXPECT_EQ(side.counters.window, 32u);
  EXPECT_EQ(side.posted.size(), 32u - 12u);
  EXPECT_TRUE(side.out.arm);
  EXPECT_EQ(side.out.srq_arm.limit, 16u);
  EXPECT_GT(side.changed, 0);
}

TEST(Receiver, BeyondWhatIsUnaskedTheLimitDoesNotGrow) {
  CoreConfig config = rig::small_config();
  config.window_unasked = 32;
  Side side(config);
  for (int i = 0; i < 2; ++i) {
    while (side.posted.size() > 2) side.receiver.release(side.arrive());
    side.receiver.on_srq_limit(side.out);
    side.settle();
    EXPECT_EQ(side.counters.window, 32u);
  }
}

TEST(Receiver, ALimitEventThatIsOldNewsDoesNotGrow) {
  Side side;
  side.receiver.on_srq_limit(side.out);
  EXPECT_EQ(side.counters.window, 16u);
  EXPECT_TRUE(side.out.arm);
}

// A window that cannot grow, and a timer that learns.
CoreConfig that_learns() {
  CoreConfig config = rig::small_config();
  config.window.max = 16;
  config.rnr_auto = true;
  return config;
}

constexpr Time begin{seconds(3).ns};

TEST(Receiver, TheRnrTimerFollowsTheTimeWithoutReceives) {
  for (const bool may : {false, true}) {
    CoreConfig config = that_learns();
    config.rnr_auto = may;
    Side side(config);
    const std::uint64_t first = side.counters.rnr_timer_ns;
    for (int i = 0; i < 15; ++i) side.arrive();
    EXPECT_FALSE(side.receiver.is_empty());
    side.arrive();
    ASSERT_TRUE(side.receiver.is_empty());
    side.receiver.note_empty(begin);
    side.receiver.note_empty(begin + milliseconds(1));  // it still is
    ASSERT_TRUE(side.receiver.was_low());
    side.receiver.on_reposted(begin + milliseconds(9), side.out);
    EXPECT_FALSE(side.receiver.was_low());
    EXPECT_EQ(side.counters.repost_ns_peak, 9'000'000u);
    EXPECT_EQ(side.out.rnr_changed, may);
    EXPECT_EQ(side.counters.rnr_timer_changes, may ? 1u : 0u);
    if (may) {
      EXPECT_GE(rnr_timer_duration(side.out.rnr_code), milliseconds(9));
    } else {
      EXPECT_EQ(side.counters.rnr_timer_ns, first);
    }
  }
}

// Nobody polls while the application computes, so the last receive is missed later than it goes.
TEST(Receiver, WhoeverFindsNoReceivesLooksBackToTheLimitEvent) {
  Side side(that_learns());
  for (int i = 0; i < 15; ++i) side.arrive();
  side.receiver.on_srq_limit(side.out);
  side.receiver.note_low(begin);
  side.arrive();
  side.receiver.note_empty(begin + milliseconds(5));
  side.receiver.on_reposted(begin + milliseconds(6), side.out);
  EXPECT_EQ(side.counters.repost_ns_peak, 6'000'000u);
}

TEST(Receiver, WhileReceivesAreThereTheRnrTimerLearnsNothing) {
  Side side(that_learns());
  for (int i = 0; i < 15; ++i) side.arrive();
  side.receiver.on_srq_limit(side.out);
  side.receiver.note_low(begin);
  ASSERT_TRUE(side.receiver.was_low());
  side.receiver.on_reposted(begin + milliseconds(6), side.out);
  EXPECT_FALSE(side.receiver.was_low());
  EXPECT_EQ(side.counters.repost_ns_peak, 0u);
  EXPECT_FALSE(side.out.rnr_changed);
}

TEST(Receiver, AWindowOfWhichLittleWasUsedShrinksAndAsksForCreditsBack) {
  Side side;
  for (int i = 0; i < 12; ++i) side.arrive();
  side.receiver.on_srq_limit(side.out);
  side.settle();
  ASSERT_EQ(side.counters.window, 32u);
  for (std::uint32_t i = 0; i < 12; ++i) side.receiver.release(BufferId{i});
  side.receiver.post(side.out);
  side.settle();

  Time now{};
  for (int i = 0; i < 10 && side.counters.window == 32; ++i) {
    ASSERT_NE(side.receiver.next_look(), Time::never());
    now = std::max(now, side.receiver.next_look());
    side.receiver.on_timer(now, side.out);
  }
  EXPECT_EQ(side.counters.window, 16u);
  EXPECT_GE(now, Time{} + side.config.shrink_after);
  EXPECT_EQ(side.exceeded, 1);
}

// Memory goes back by slabs: one that came for several doublings would stay.
TEST(Receiver, AWindowThatGrewAtOnceShrinksStepByStep) {
  Side side;
  std::vector<Receiver::Share> shares(30);
  for (Receiver::Share& share : shares) side.receiver.admit(share, side.out);
  side.settle();
  ASSERT_GT(side.counters.window, 48u);
  EXPECT_GE(side.posted.size(), side.counters.window);
  for (Receiver::Share& share : shares) side.receiver.leave(share);
  side.look_down_to(16);
  EXPECT_EQ(side.counters.window, 16u);
}

// A slab is a registration, under the lock.
TEST(Receiver, OneSlabDoesForSeveralPeersThatComeOneByOne) {
  CoreConfig config = rig::small_config();
  config.window = {.initial = 16, .max = 4096};
  Side side(config);
  std::vector<Receiver::Share> shares(800);
  for (Receiver::Share& share : shares) {
    side.receiver.admit(share, side.out);
    side.settle();
  }
  EXPECT_GE(side.counters.window, 2 * shares.size());
  EXPECT_LE(side.slabs.size(), 60u);
  EXPECT_LE(side.counters.receive_bytes,
            side.counters.window * std::uint64_t{config.buffer_bytes} * 9 / 8);
}

TEST(Receiver, WithoutMemoryTheWindowStaysWhatItIs) {
  Side side;
  for (int i = 0; i < 12; ++i) side.arrive();
  side.receiver.on_srq_limit(side.out);
  ASSERT_GT(side.out.slab_buffers, 0u);
  side.out.slab_buffers = 0;
  side.receiver.on_slab_failed(side.out);
  EXPECT_EQ(side.counters.window, 16u);
  EXPECT_TRUE(side.receiver.conserved(0));
}

TEST(Receiver, AWindowThatFoundNoMemoryStillShrinks) {
  Side side;
  std::vector<Receiver::Share> shares(30);
  for (Receiver::Share& share : shares) side.receiver.admit(share, side.out);
  for (int i = 0; i < 2; ++i) side.give_slab();
  ASSERT_GT(std::exchange(side.out.slab_buffers, 0), 0u);
  side.receiver.on_slab_failed(side.out);
  ASSERT_GT(side.counters.window, 16u);
  for (Receiver::Share& share : shares) side.receiver.leave(share);
  side.look_down_to(16);
  EXPECT_EQ(side.counters.window, 16u);
}

// As `weir set` does it.
TEST(Receiver, ALowerMaximumMakesTheWindowFallAndGivesMemoryBack) {
  CoreConfig config = rig::small_config();
  config.shrink_after = {};  // never, by itself
  config.window.max = 128;
  Side side(config);
  Receiver::Share peer;
  side.receiver.admit(peer, side.out);
  side.settle();
  while (side.counters.window < 128) {  // half of them are used, and the limit event comes
    std::vector<BufferId> held;
    while (side.counters.receives_posted >= side.counters.window / 2) held.push_back(side.arrive());
    side.receiver.on_srq_limit(side.out);
    side.settle();
    for (const BufferId buffer : held) side.receiver.release(buffer);
    side.receiver.post(side.out);
    side.settle();
  }
  const std::uint64_t most = 24u * config.buffer_bytes;
  ASSERT_GT(side.counters.receive_bytes, most);
  side.receiver.limit({.initial = 16, .max = 24}, side.out);
  side.settle();
  EXPECT_LE(side.counters.window, 24u);
  EXPECT_GT(side.exceeded, 0);
  EXPECT_TRUE(side.receiver.conserved(peer.out));
  // What is posted goes back as traffic uses it.
  for (int turn = 0; turn < 1000 && side.counters.receive_bytes > most; ++turn) {
    side.receiver.release(side.arrive());
    side.receiver.post(side.out);
    side.receiver.drop_slabs(side.out);
    side.settle();
  }
  EXPECT_LE(side.counters.receive_bytes, most);
  side.receiver.limit({.initial = 16, .max = 128}, side.out);
  EXPECT_EQ(side.receiver.window_max(), 128u);
}

}  // namespace
}  // namespace weir
