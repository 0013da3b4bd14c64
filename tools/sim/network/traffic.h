// What models of adapters do for a whole run: endpoints that keep count.
//
// Single-threaded.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "tools/sim/network/network.h"
#include "tools/sim/network/scenario.h"

namespace weir::sim::network {

class Traffic : public Endpoints {
 public:
  // Before the first event.
  virtual void begin(Network& network) { network_ = &network; }
  // The mean of the reads that receivers have under way.
  virtual double mean_reads() const { return 0; }

  // What arrived: since the beginning; and since `start`, at a node and a packet's mean latency.
  void start() {
    std::fill(flits_.begin(), flits_.end(), 0);
    latency_ = 0;
    packets_ = 0;
  }
  std::uint64_t total_flits() const { return total_; }
  std::uint64_t flits(NodeId node) const { return flits_[node]; }
  double mean_latency() const {
    return packets_ == 0 ? 0 : latency_ / static_cast<double>(packets_);
  }

 protected:
  explicit Traffic(std::uint32_t nodes) : flits_(nodes) {}
  Network& network() { return *network_; }
  Tick now() const { return network_->now(); }
  void count(NodeId node, const Packet& packet) {
    flits_[node] += packet.flits;
    total_ += packet.flits;
    latency_ += static_cast<double>(now() - packet.born);
    ++packets_;
  }

 private:
  Network* network_ = nullptr;
  std::vector<std::uint64_t> flits_;  // by node
  std::uint64_t total_ = 0;
  double latency_ = 0;
  std::uint64_t packets_ = 0;
};

// Senders that send as fast as they may (pushing.cc), and receivers that fetch (reading.cc).
std::unique_ptr<Traffic> make_pushing(const Scenario& scenario, const Roles& roles);
std::unique_ptr<Traffic> make_reading(const Scenario& scenario, const Roles& roles);

}  // namespace weir::sim::network
