// The packet-level fabric by itself: everything arrives, nothing is lost or made, the same seed is
// the same run, and a fabric that stands still is noticed.
#include "tools/sim/network/network.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/sim/network/scenario.h"

namespace weir::sim::network {
namespace {

// Every node sends so many packets to each of a few others, then stops.
class Batch : public Endpoints {
 public:
  Batch(std::uint32_t nodes, std::uint32_t packets, std::uint64_t seed)
      : left_(nodes), next_(nodes), got_(nodes) {
    Random random(seed);
    for (NodeId node = 0; node < nodes; ++node) {
      for (std::uint32_t i = 0; i < packets; ++i) {
        const auto other = static_cast<NodeId>(random.below(nodes - 1));
        left_[node].push_back(other < node ? other : other + 1);
        ++expected_;
      }
    }
  }

  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override {
    // Every fourth one is a request, and they come in two sizes.
    if (next_[node] == left_[node].size()) return false;
    const bool request = next_[node] % 4 == 3;
    const std::uint16_t flits = request ? 1 : next_[node] % 3 == 0 ? 7 : 16;
    if (request != (kind == PacketKind::request) || flits > room) return false;
    packet.target = left_[node][next_[node]++];
    packet.flits = flits;
    return true;
  }
  void arrived(NodeId node, const Packet& packet) override {
    EXPECT_EQ(packet.target, node);
    ++got_[node];
    ++arrived_;
  }

  std::uint64_t expected() const { return expected_; }
  std::uint64_t arrived_count() const { return arrived_; }

 private:
  std::vector<std::vector<NodeId>> left_;
  std::vector<std::size_t> next_;
  std::vector<std::uint32_t> got_;
  std::uint64_t expected_ = 0;
  std::uint64_t arrived_ = 0;
};

// As Batch, until they no longer keep what they promised.
class Breaking final : public Batch {
 public:
  using Batch::Batch;
  bool conserved() const override { return arrived_count() < 100; }
};

std::vector<Topology> topologies() {
  return {{.shape = Shape::dragonfly, .p = 2, .a = 4, .h = 2},
          {.shape = Shape::dragonfly, .p = 1, .a = 2, .h = 1},
          {.shape = Shape::fat_tree, .p = 6, .leaves = 5, .spines = 3},
          {.shape = Shape::single_switch, .ports = 9}};
}

TEST(Network, DeliversEverythingOnEveryTopologyAndRouting) {
  for (const Topology& topology : topologies()) {
    for (const Routing routing :
         {Routing::minimal, Routing::valiant, Routing::progressive}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(topology.shape)) + " routing " +
                   std::to_string(static_cast<int>(routing)));
      Network::Config config;
      config.fabric.topology = topology;
      config.fabric.routing = routing;
      config.fabric.vc_flits = 32;  // hardly any buffers
      config.fabric.threshold = 4;
      config.check_interval = 50;
      config.slowness.assign(topology.nodes(), 1);
      config.slowness[1] = 8;
      Batch batch(topology.nodes(), 60, 7);
      Network network(config, batch, 3);
      for (int i = 0; i < 400 && batch.arrived_count() < batch.expected(); ++i) {
        network.run_until(network.now() + 300);
      }
      network.run_until(network.now() + 300);
      EXPECT_EQ(network.violation(), "");
      EXPECT_EQ(batch.arrived_count(), batch.expected());
      EXPECT_TRUE(network.idle());
      EXPECT_TRUE(network.conserved());
    }
  }
}

Scenario small() {
  Scenario scenario;
  scenario.fabric.topology = {.shape = Shape::dragonfly, .p = 2, .a = 4, .h = 2};
  scenario.slow = {{2, 8}};
  scenario.from_cycles = 1'000;
  scenario.to_cycles = 3'000;
  return scenario;
}

TEST(Network, TheSameSeedIsTheSameRun) {
  const Measured first = run(small(), 5);
  const Measured again = run(small(), 5);
  const Measured other = run(small(), 6);
  EXPECT_EQ(first.violation, "");
  EXPECT_EQ(first.trace_hash, again.trace_hash);
  EXPECT_EQ(first.events, again.events);
  EXPECT_EQ(first["throughput"], again["throughput"]);
  EXPECT_NE(first.trace_hash, other.trace_hash);
}

TEST(Network, NoticesWhileItRunsThatEndpointsBreakTheirPromise) {
  Network::Config config;
  config.fabric.topology = topologies()[0];
  config.check_interval = 50;
  Breaking breaking(config.fabric.topology.nodes(), 60, 7);
  Network network(config, breaking, 3);
  network.run_until(60'000);
  EXPECT_NE(network.violation().find("does not add up by"), std::string::npos);
  EXPECT_LT(network.now(), 1'000);
}

TEST(Network, NoticesThatNothingMoves) {
  Scenario scenario = small();
  scenario.fabric.topology = {.shape = Shape::single_switch, .ports = 2};
  Network::Config config;
  config.fabric = scenario.fabric;
  config.slowness = {1'000'000, 1'000'000};
  config.patience = 10'000;
  Batch batch(2, 100, 1);
  Network network(config, batch, 1);
  network.run_until(100'000);
  EXPECT_NE(network.violation().find("no progress"), std::string::npos) << network.violation();
  EXPECT_LT(network.now(), 20'000);
}

TEST(Network, ALinkIsTheLimit) {
  Scenario scenario = small();
  scenario.fabric.topology = {.shape = Shape::single_switch, .ports = 8};
  scenario.slow.clear();
  const Measured fast = run(scenario, 1);
  EXPECT_NEAR(fast["throughput"], 1, 0.01);
  scenario.slow = {{8, 4}};
  EXPECT_NEAR(run(scenario, 1)["throughput"], 0.25, 0.01);
}

TEST(Network, OnePacketTakesWhatItsWayTakes) {
  Network::Config config;
  config.fabric.topology = {.shape = Shape::single_switch, .ports = 2};
  struct One : Endpoints {
    bool next(NodeId node, PacketKind kind, std::uint32_t, Packet& packet) override {
      if (node != 0 || kind != PacketKind::data || sent) return false;
      sent = true;
      packet.target = 1;
      packet.flits = 16;
      return true;
    }
    void arrived(NodeId, const Packet& packet) override { ticks = network->now() - packet.born; }
    Network* network = nullptr;
    bool sent = false;
    Tick ticks = 0;
  } one;
  Network network(config, one, 1);
  one.network = &network;
  network.run_until(1'000);
  // Two links of a cycle; sixteen flits pass the last one.
  EXPECT_EQ(one.ticks, (1 + 1 + 16) * ticks_a_cycle);
}

}  // namespace
}  // namespace weir::sim::network
