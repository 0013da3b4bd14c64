// Very many processes ask one for a connection at the same time: as at the start of a job whose
// ranks all greet the first one. A queue pair takes the asked process long to make (1 to 4 ms an
// answer on Soft-RoCE; 7 ms on a busy host), so most of them wait for longer than an attempt takes,
// and ask again.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tools/sim/engine.h"

namespace weir::sim {
namespace {

struct Nobody : Upcalls {
  void on_message(const Delivery&) override {}
  void on_retired(SendSlot*, bool) override {}
  void on_failure(const Failure&) override { ++failures; }
  int failures = 0;
};

struct Storm {
  Duration all_connected{};
  std::uint64_t pairs = 0;  // made by the one who is asked
  std::uint64_t stale = 0;  // requests
  int failures = 0;
};

Engine::Config config_of(Node node, std::uint32_t most) {
  Engine::Config config;
  config.core.self = {1, node};
  config.core.buffer_bytes = 512;
  config.core.window = {.initial = 16, .max = 64, .most = most};
  config.core.shrink_after = {};
  config.core.queue = {.depth = 16, .control_reserve = 4, .signal_interval = 4};
  config.core.fetches_apart = false;
  config.nic.srq_depth = most;
  return config;
}

Storm storm(std::uint32_t askers, Duration service) {
  Fabric fabric({.connection_service = service}, {}, 11);
  Connections connections(fabric);
  Engine asked(fabric, connections, 0, config_of(0, 8 * askers));
  asked.expect_peers(askers);
  std::vector<std::unique_ptr<Engine>> all;
  std::vector<PeerId> peers;
  for (Node node = 1; node <= askers; ++node) {
    all.push_back(std::make_unique<Engine>(fabric, connections, node, config_of(node, 64)));
    peers.push_back(all.back()->add_peer({1, 0}, 0));
    all.back()->send_filled(peers.back(), 8, 7, [](std::byte*) {});
  }
  Storm result;
  const Time began = fabric.events.now();
  const Time deadline = began + service * (10 * askers);
  std::uint32_t connected = 0;
  while (connected < askers && fabric.events.now() < deadline) {
    fabric.run_until(fabric.events.now() + milliseconds(10));
    Nobody nobody;
    for (; connected < askers; ++connected) {
      all[connected]->progress(nobody);
      if (all[connected]->core().state(peers[connected]) != PeerState::ready) break;
    }
    result.failures += nobody.failures;
  }
  EXPECT_EQ(connected, askers);
  EXPECT_EQ(fabric.violations, std::vector<std::string>{});
  result.all_connected = fabric.events.now() - began;
  result.pairs = asked.core().counters().connections_accepted;
  result.stale = asked.core().counters().requests_stale;
  return result;
}

class StormOf : public testing::TestWithParam<Duration> {};

TEST_P(StormOf, TwoThousandTakesLittleMoreThanServingThem) {
  constexpr std::uint32_t askers = 2000;
  const Storm seen = storm(askers, GetParam());
  EXPECT_EQ(seen.failures, 0);
  EXPECT_LE(seen.all_connected.ns, (GetParam() * askers).ns * 12 / 10);
  // None for a request that was given up, except those whose turn comes while the next is under
  // way.
  EXPECT_LE(seen.pairs, askers + askers / 100);
  RecordProperty("milliseconds", static_cast<int>(seen.all_connected.ns / 1000000));
  RecordProperty("stale", static_cast<int>(seen.stale));
}

TEST(Storm, StrangersTakeNobodysTurn) {
  constexpr int strangers = 500;
  const Duration service = microseconds(6700);
  Fabric fabric({.connection_service = service}, {}, 11);
  Connections connections(fabric);
  Engine asked(fabric, connections, 0, config_of(0, 64));
  // Does not know the key of those it asks, and asks on.
  int refused = 0;
  connections.listen(2, [&](EndId, const ConnectionNews& news) {
    EXPECT_NE(news.kind, ConnectionNews::Kind::answered);
    if (news.kind != ConnectionNews::Kind::rejected) return;
    EXPECT_EQ(news.reject, wire::Reject::stranger);
    ++refused;
  });
  wire::Hello hello{.from = {9, 2}, .to = {1, 0}, .buffer_bytes = 512};
  hello.key.fill(0xff);
  for (int i = 0; i < strangers; ++i) connections.connect(2, 0, QpNumber{1u}, hello);
  fabric.run_until(fabric.events.now() + milliseconds(1));
  Engine one(fabric, connections, 1, config_of(1, 64));
  const PeerId peer = one.add_peer({1, 0}, 0);
  one.send_filled(peer, 8, 7, [](std::byte*) {});
  fabric.run_until(fabric.events.now() + service * 3);
  Nobody nobody;
  one.progress(nobody);
  EXPECT_EQ(one.core().state(peer), PeerState::ready);
  // Those beyond the rate get no words.
  const auto dropped = static_cast<int>(asked.core().counters().refusals_dropped);
  EXPECT_EQ(refused + dropped, strangers);
  EXPECT_EQ(refused, RefusalRate::at_once);
  EXPECT_EQ(fabric.violations, std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Service, StormOf, testing::Values(microseconds(1500), microseconds(6700)));

}  // namespace
}  // namespace weir::sim
