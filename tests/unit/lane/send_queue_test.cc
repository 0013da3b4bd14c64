// Which work requests ask for a completion, and what a completion retires.
#include "transport/lane/send_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "tools/sim/random.h"

namespace weir {
namespace {

SendQueue::Config config(std::uint32_t depth, std::uint32_t interval,
                         std::uint32_t bytes = 1u << 30) {
  return {.depth = depth, .control_reserve = 4, .signal_interval = interval, .signal_bytes = bytes};
}

SendSlot slot_of(std::uint32_t capacity, bool notify = false) {
  SendSlot slot;
  slot.capacity_bytes = capacity;
  slot.notify = notify;
  return slot;
}

TEST(SendQueue, SignalsOnceInAnInterval) {
  SendQueue queue(config(64, 4));
  SendSlot slot = slot_of(100);
  for (std::uint64_t i = 0; i < 16; ++i) {
    const SendQueue::Posted posted = queue.post(&slot);
    EXPECT_EQ(posted.id, i);
    EXPECT_EQ(posted.signalled, i % 4 == 3) << i;
  }
}

TEST(SendQueue, SignalsOnceInSoManyBytes) {
  SendQueue queue(config(64, 100, 1000));
  SendSlot slot = slot_of(400);
  EXPECT_FALSE(queue.post(&slot).signalled);
  EXPECT_FALSE(queue.post(&slot).signalled);
  EXPECT_TRUE(queue.post(&slot).signalled);
  EXPECT_FALSE(queue.post(&slot).signalled);
}

TEST(SendQueue, AChainWithSomebodyWaitingWantsASignal) {
  SendQueue queue(config(64, 100));
  SendSlot plain = slot_of(1);
  SendSlot waited = slot_of(1, true);
  queue.post(&plain);
  EXPECT_FALSE(queue.wants_signal());
  queue.post(&waited);
  queue.post(&plain);
  EXPECT_TRUE(queue.wants_signal());
  queue.mark_signalled();
  EXPECT_FALSE(queue.wants_signal());
  queue.post(&plain);
  EXPECT_FALSE(queue.wants_signal());
}

TEST(SendQueue, TheEndOfAChainIsSignalledIfSomebodyWaits) {
  SendQueue queue(config(64, 100));
  SendSlot plain = slot_of(1);
  SendSlot waited = slot_of(1, true);
  EXPECT_FALSE(queue.post(&plain, true).signalled);
  EXPECT_FALSE(queue.post(&waited, false).signalled);
  EXPECT_TRUE(queue.post(&plain, true).signalled);
  EXPECT_FALSE(queue.post(&plain, true).signalled);
  EXPECT_TRUE(queue.post(&waited, true).signalled);
  EXPECT_FALSE(queue.wants_signal());
}

TEST(SendQueue, SaysThatItIsFullAndSignalsTheLast) {
  SendQueue queue(config(8, 100));  // four are for control frames
  SendSlot slot = slot_of(1);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(queue.post(&slot, true).full);
  const SendQueue::Posted last = queue.post(&slot, true);
  EXPECT_TRUE(last.full);
  EXPECT_TRUE(last.signalled);
  EXPECT_TRUE(queue.has_room(true));
}

TEST(SendQueue, AFullQueueWantsASignal) {
  SendQueue queue(config(10, 100));
  SendSlot slot = slot_of(1);
  for (int i = 0; i < 5; ++i) queue.post(&slot);
  EXPECT_FALSE(queue.wants_signal());
  queue.post(&slot);
  EXPECT_TRUE(queue.wants_signal());
}

TEST(SendQueue, KeepsRoomForControlFrames) {
  SendQueue queue(config(10, 100));
  SendSlot slot = slot_of(1);
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(queue.has_room(false));
    queue.post(&slot);
  }
  EXPECT_FALSE(queue.has_room(false));
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(queue.has_room(true));
    queue.post(&slot);
  }
  EXPECT_FALSE(queue.has_room(true));
}

TEST(SendQueue, ACompletionRetiresAllBeforeIt) {
  SendQueue queue(config(64, 100));
  std::vector<SendSlot> slots(6);
  for (SendSlot& slot : slots) queue.post(&slot);
  std::vector<SendSlot*> retired;
  const auto note = [&](SendSlot* slot) { retired.push_back(slot); };
  EXPECT_TRUE(queue.retire(3, note));
  ASSERT_EQ(retired.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(retired[i], &slots[i]);
  EXPECT_FALSE(queue.retire(3, note));  // again
  EXPECT_FALSE(queue.retire(0, note));  // older
  EXPECT_FALSE(queue.retire(6, note));  // never posted
  EXPECT_EQ(retired.size(), 4u);
  queue.abandon(note, [](const RdmaInFlight&) {});
  EXPECT_EQ(retired.size(), 6u);
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.awaits_completion());
}

TEST(SendQueue, AProbeIsAwaitedWhateverWasPostedInSilenceBefore) {
  SendQueue queue(config(64, 8));
  SendSlot slot = slot_of(100);
  for (int i = 0; i < 3; ++i) queue.post(&slot);
  queue.retire(queue.post_probe(), [](SendSlot*) {});
  queue.post_probe();
  EXPECT_TRUE(queue.awaits_completion());
}

TEST(SendQueue, KnowsItsChunks) {
  SendQueue queue(config(64, 4));
  SendSlot slot = slot_of(100);
  queue.post(&slot);
  RdmaInFlight chunk{};
  for (std::uint32_t bytes : {10u, 20u, 30u}) {
    chunk.bytes = bytes;
    queue.post_rdma(chunk, true);
    queue.post(&slot);
    queue.post_probe();
  }
  const auto bytes_of = [&](WorkId id) {
    const RdmaInFlight* const found = queue.find_chunk(id);
    return found != nullptr ? found->bytes : 0;
  };
  EXPECT_EQ(bytes_of(0), 0u);
  EXPECT_EQ(bytes_of(1), 10u);
  EXPECT_EQ(bytes_of(2), 0u);
  EXPECT_EQ(bytes_of(4), 20u);
  EXPECT_EQ(bytes_of(7), 30u);
  EXPECT_EQ(bytes_of(10), 0u);  // never posted
  queue.retire(4, [](SendSlot*) {});
  EXPECT_EQ(bytes_of(4), 0u);
  EXPECT_EQ(bytes_of(7), 30u);
}

TEST(SendQueue, AwaitsOnlyWhatWasAskedFor) {
  SendQueue queue(config(64, 3));
  SendSlot slot = slot_of(1);
  queue.post(&slot);
  queue.post(&slot);
  EXPECT_FALSE(queue.awaits_completion());
  queue.post(&slot);
  EXPECT_TRUE(queue.awaits_completion());
  queue.post(&slot);
  EXPECT_TRUE(queue.awaits_completion());
  queue.retire(2, [](SendSlot*) {});
  EXPECT_FALSE(queue.awaits_completion());
}

// However it is used: when the queue has no room for data, somebody will hear of it.
TEST(SendQueue, NeverFillsUpInSilence) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    sim::Random random(seed);
    SendQueue queue(
        config(4 + random.between(1, 20), random.between(1, 30), random.between(1, 4000)));
    SendSlot plain = slot_of(random.between(1, 1000));
    SendSlot waited = slot_of(1, true);
    std::deque<WorkId> signalled;
    for (int step = 0; step < 2000; ++step) {
      const std::uint32_t chain = random.between(1, 6);
      WorkId last = 0;
      bool any = false;
      bool last_signalled = false;
      for (std::uint32_t i = 0; i < chain; ++i) {
        const bool control = random.chance(100);
        if (!queue.has_room(control)) continue;
        const SendQueue::Posted posted =
            queue.post(control || random.chance(50) ? &waited : &plain);
        last = posted.id;
        last_signalled = posted.signalled;
        any = true;
        if (posted.signalled) signalled.push_back(posted.id);
      }
      if (any && queue.wants_signal() && !last_signalled) {
        queue.mark_signalled();
        signalled.push_back(last);
      }
      if (!queue.has_room(false)) {
        ASSERT_TRUE(queue.awaits_completion()) << seed;
        ASSERT_FALSE(signalled.empty()) << seed;
      }
      if (!signalled.empty() && random.chance(300)) {
        ASSERT_TRUE(queue.retire(signalled.front(), [](SendSlot*) {}));
        signalled.pop_front();
      }
      ASSERT_EQ(queue.awaits_completion(), !signalled.empty()) << seed;
    }
  }
}

}  // namespace
}  // namespace weir
