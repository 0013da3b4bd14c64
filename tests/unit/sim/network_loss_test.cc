// Adapters on a fabric that loses packets: what was asked for comes, once, or fails and is counted.
#include <gtest/gtest.h>

#include "tools/sim/network/adapter.h"
#include "tools/sim/network/scenario.h"

namespace weir::sim::network {
namespace {

// Every node reads from one other and writes to it, so many of each.
class Exchange final : public Endpoints, private Adapter::Client {
 public:
  Exchange(const Network::Config& fabric, std::uint32_t retries, std::uint64_t seed)
      : adapter_({.nodes = fabric.fabric.topology.nodes(),
                  .lossy = true,
                  .timeout = 6'000,
                  .retries = retries},
                 *this),
        network_(fabric, *this, seed) {
    adapter_.begin(network_);
    const NodeId nodes = network_.nodes();
    for (NodeId node = 0; node < nodes; ++node) {
      for (std::uint64_t i = 0; i < each; ++i) {
        const std::uint64_t token = node * each + i;
        adapter_.post(node, (node + nodes / 2) % nodes, Verb::read, 20'000, token);
        adapter_.post(node, (node + nodes / 2) % nodes, Verb::write, 20'000, token);
      }
    }
    done_.resize(nodes * each * 2);
    landed_.resize(nodes * each);
    network_.run_until(3'000'000);
  }

  bool next(NodeId node, PacketKind kind, std::uint32_t room, Packet& packet) override {
    return adapter_.next(node, kind, room, packet);
  }
  void arrived(NodeId node, const Packet& packet) override { adapter_.arrived(node, packet); }
  void woken(NodeId node) override { adapter_.woken(node); }

  static constexpr std::uint64_t each = 8;
  std::vector<int> done_;
  std::vector<int> landed_;
  std::uint64_t failed_ = 0;
  Adapter adapter_;
  Network network_;

 private:
  void completed(const Operation& operation, bool failed) override {
    ++done_[operation.token * 2 + (operation.verb == Verb::read ? 0 : 1)];
    failed_ += failed ? 1 : 0;
  }
  void landed(const Operation& operation) override { ++landed_[operation.token]; }
};

Network::Config lossy(double loss) {
  Network::Config config;
  config.fabric.topology = {.shape = Shape::dragonfly, .p = 2, .a = 4, .h = 2};
  config.loss = loss;
  return config;
}

TEST(Loss, EverythingComesOnce) {
  const Exchange exchange(lossy(0.002), 1'000, 3);
  EXPECT_EQ(exchange.network_.violation(), "");
  EXPECT_GT(exchange.network_.lost_packets(), 0u);
  EXPECT_GT(exchange.adapter_.counts().retried, 0u);
  EXPECT_EQ(exchange.failed_, 0u);
  EXPECT_EQ(exchange.adapter_.under_way(), 0u);
  for (const int times : exchange.done_) EXPECT_EQ(times, 1);
  for (const int times : exchange.landed_) EXPECT_EQ(times, 1);
}

TEST(Loss, AfterItsRetriesAConnectionIsGivenUp) {
  Network::Config config = lossy(0);
  config.fabric.topology = {.shape = Shape::single_switch, .ports = 2};
  config.outages = {{.links = 1, .from = 200, .to = 3'000'000}};
  const Exchange exchange(config, 2, 3);
  EXPECT_EQ(exchange.network_.violation(), "");
  EXPECT_EQ(exchange.adapter_.under_way(), 0u);
  EXPECT_EQ(exchange.failed_, exchange.adapter_.counts().failed);
  EXPECT_EQ(exchange.failed_, 2 * 2 * Exchange::each);
  for (const int times : exchange.done_) EXPECT_EQ(times, 1);
}

TEST(Loss, ALinkThatComesBackIsWaitedFor) {
  Network::Config config = lossy(0);
  config.fabric.topology = {.shape = Shape::single_switch, .ports = 2};
  config.outages = {{.links = 1, .from = 200, .to = 10'000}};
  const Exchange exchange(config, 7, 3);
  EXPECT_EQ(exchange.failed_, 0u);
  EXPECT_GT(exchange.adapter_.counts().retried, 0u);
  for (const int times : exchange.done_) EXPECT_EQ(times, 1);
}

Scenario reading() {
  Scenario scenario;
  scenario.fabric.topology = {.shape = Shape::dragonfly, .p = 2, .a = 4, .h = 2};
  scenario.protocol = Protocol::reads;
  scenario.reads = 8;
  scenario.timeout_cycles = 1'000;
  scenario.from_cycles = 1'000;
  scenario.to_cycles = 20'000;
  return scenario;
}

TEST(Loss, TheSchedulersBudgetIsConserved) {
  Scenario scenario = reading();
  scenario.loss = 0.0005;
  const Measured measured = run(scenario, 1);
  EXPECT_EQ(measured.violation, "");
  EXPECT_GT(measured.lost_packets, 0u);
  EXPECT_GT(measured.retried, 0u);
  EXPECT_EQ(measured.failed, 0u);
  EXPECT_GT(measured.throughput, 0.2);
  EXPECT_EQ(run(scenario, 1).trace_hash, measured.trace_hash);
}

TEST(Loss, TransfersOfABrokenConnectionFail) {
  Scenario scenario = reading();
  scenario.outages = {{.links = 6, .from_cycles = 2'000, .to_cycles = 20'000}};
  scenario.retries = 2;
  scenario.fabric.switching.routing = Routing::minimal;
  const Measured minimal = run(scenario, 1);
  EXPECT_EQ(minimal.violation, "");
  EXPECT_GT(minimal.failed, 0u);
  EXPECT_LT(minimal.mean_reads, 8);
  scenario.fabric.switching.routing = Routing::progressive;
  const Measured progressive = run(scenario, 1);
  EXPECT_EQ(progressive.violation, "");
  EXPECT_EQ(progressive.failed, 0u);
  EXPECT_GT(progressive.throughput, minimal.throughput);
}

}  // namespace
}  // namespace weir::sim::network
