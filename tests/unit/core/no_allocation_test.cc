// The warm eager path does not touch the heap: this program counts every allocation.
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/allocations.h"
#include "tests/unit/core/rig.h"

namespace weir {
namespace {

// Two cores back to back, with nothing in between that allocates.
struct End {
  explicit End(PeerName name, PeerName peer_name) : rig(config_for(name)) {
    peer = rig.core.add_peer(peer_name, {.key = rig.core.config().key});
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = rig.slot();
  }

  static Core::Config config_for(PeerName name) {
    Core::Config config = rig::small_config();
    config.self = name;
    return config;
  }

  SendSlot* take() { return slots[--free]; }

  rig::Rig rig;
  PeerId peer;
  LaneId lane = LaneId::none;
  std::array<SendSlot*, 64> slots;
  std::size_t free = 64;
  std::array<ReceivePost, 1024> posts{};
  std::size_t post_head = 0;
  std::size_t post_tail = 0;
};

// Carries what is in `from`'s box over to `to`, completions included.
void carry(End& from, End& to) {
  Outbox& out = from.rig.out;
  for (const ReceivePost& post : out.receives) from.posts[from.post_tail++ % 1024] = post;
  out.receives.clear();
  for (const WorkRequest& work : out.work) {
    ASSERT_LT(to.post_head, to.post_tail) << "no receive buffer";
    const ReceivePost post = to.posts[to.post_head++ % 1024];
    std::memcpy(reinterpret_cast<void*>(post.address), reinterpret_cast<void*>(work.address),
                work.length_bytes);
    to.rig.core.on_completion(to.rig.now,
                              {Opcode::receive, CompletionStatus::success, work.length_bytes,
                               to.lane, index(post.buffer)},
                              to.rig.out);
    if (work.signalled) {
      // Handled a little later, when this box is done with.
      from.rig.core.on_completion(from.rig.now,
                                  {Opcode::send, CompletionStatus::success, 0, work.lane, work.id},
                                  to.rig.out);
    }
  }
  out.work.clear();
  for (End* end : {&from, &to}) {
    for (const Retired& retired : end->rig.out.retired) {
      End& owner = retired.slot->user == &from ? from : to;
      owner.slots[owner.free++] = retired.slot;
    }
    end->rig.out.retired.clear();
    end->rig.out.arm = false;
  }
}

void hand_up(End& end, std::uint64_t& messages) {
  for (const Delivery& delivery : end.rig.out.deliveries) {
    ++messages;
    if (delivery.last) end.rig.core.release(delivery.buffer);
  }
  end.rig.out.deliveries.clear();
}

TEST(NoAllocation, OnTheWarmEagerPath) {
  End a({1, 1}, {1, 2});
  End b({1, 2}, {1, 1});
  for (End* end : {&a, &b}) {
    for (const ReceivePost& post : end->rig.posted) end->posts[end->post_tail++] = post;
    for (SendSlot* slot : end->slots) slot->user = end;
  }
  // A connection by hand.
  ASSERT_EQ(a.rig.core.send(a.rig.now, a.peer, a.take(), 8, 0, true, a.rig.out), Status::ok);
  a.rig.settle();
  const ConnectAction ask = a.rig.take_connects().at(0);
  b.rig.core.on_request(b.rig.now, RequestId{1}, ask.hello, b.rig.out);
  b.rig.settle();
  const ConnectAction accept = b.rig.take_connects().at(0);
  a.lane = ask.lane;
  b.lane = accept.lane;
  b.rig.core.on_established(b.rig.now, b.lane, b.rig.out);
  a.rig.core.on_answer(a.rig.now, a.lane, accept.hello, a.rig.out);

  std::uint64_t messages = 0;
  std::uint64_t appended = 0;
  std::uint64_t before = 0;
  for (int round = 0; round < 2000; ++round) {
    if (round == 200) before = allocations();
    for (End* end : {&a, &b}) {
      End& to = end == &a ? b : a;
      for (std::uint32_t i = 0; i < 6 && end->free > 0; ++i) {
        if (std::byte* at = end->rig.core.append(end->peer, 16, 1)) {
          std::memset(at, 1, 16);
          ++appended;
          continue;
        }
        SendSlot* slot = end->take();
        slot->notify = round % 3 == 0;
        const std::uint32_t size = i == 5 ? 700 : 16;
        if (end->rig.core.send(end->rig.now, end->peer, slot, size, 1, false, end->rig.out) !=
            Status::ok) {
          end->slots[end->free++] = slot;
        }
      }
      carry(*end, to);
      carry(to, *end);
    }
    for (End* end : {&a, &b}) {
      End& to = end == &a ? b : a;
      hand_up(*end, messages);
      end->rig.core.begin_round();
      end->rig.core.on_idle(end->rig.out);
      end->rig.core.pump(end->rig.now, end->rig.out);
      end->rig.core.give_back_credits(end->rig.out);
      ASSERT_EQ(end->rig.out.slab_buffers, 0u) << "the window grew: not warm";
      carry(*end, to);
      carry(to, *end);
    }
  }
  EXPECT_EQ(allocations() - before, 0u);
  EXPECT_GT(messages, 10000u);
  EXPECT_GT(appended, 1000u);
  EXPECT_TRUE(a.rig.take_failures().empty());
  EXPECT_TRUE(b.rig.take_failures().empty());
}

}  // namespace
}  // namespace weir
