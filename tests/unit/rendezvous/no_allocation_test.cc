// The warm scheduler does not touch the heap: this program counts every allocation. And a chunk
// costs the same beside thousands of idle peers.
#include <gtest/gtest.h>

#include "base/ring.h"
#include "rendezvous/scheduler_with_peers.h"
#include "tests/unit/allocations.h"

namespace weir {
namespace {

constexpr std::uint32_t peers = 10'000;

// Ten transfers of different sizes with each of a few peers, completed in order.
void work(SchedulerWithPeers& scheduler, Ring<Chunk>& under_way, Time& now) {
  for (std::uint32_t i = 0; i < 80; ++i) {
    scheduler.submit({.kind = i % 3 == 0 ? TransferKind::put : TransferKind::get,
                      .peer = PeerId{(i % 8) * (peers / 8)},
                      .length_bytes = std::uint64_t{i} * 50'000});
  }
  FinishedTransfer finished;
  while (!scheduler.idle()) {
    for (Chunk chunk; scheduler.next(chunk);) under_way.push(chunk);
    while (scheduler.next_finished(finished)) continue;
    if (under_way.empty()) continue;
    const Chunk chunk = under_way.pop();
    now = now + microseconds(10);
    scheduler.on_chunk_done(now, chunk.transfer, chunk.length_bytes, microseconds(30));
  }
}

TEST(SchedulerNoAllocation, Warm) {
  SchedulerWithPeers scheduler(Scheduler::Config{});
  scheduler.reserve(100, peers);
  for (std::uint32_t peer = 0; peer < peers; ++peer) scheduler.open_peer(PeerId{peer}, 16);
  Ring<Chunk> under_way(1024);
  Time now{1};
  const std::uint64_t before = allocations();
  for (int i = 0; i < 100; ++i) work(scheduler, under_way, now);
  scheduler.cancel_peer(PeerId{1});
  scheduler.drop_peer(PeerId{2});
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(scheduler.conserved());
  EXPECT_EQ(scheduler.counts().done, 8000u);
}

}  // namespace
}  // namespace weir
