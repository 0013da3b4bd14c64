// Counts what arrives, from a point in time on.
//
// Single-threaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tools/sim/network/packet.h"

namespace weir::sim::network {

class Meter {
 public:
  explicit Meter(std::uint32_t nodes) : flits_(nodes) {}

  void start() {
    std::fill(flits_.begin(), flits_.end(), 0);
    latency_ = 0;
    packets_ = 0;
  }

  void count(NodeId node, const Packet& packet, Tick now) {
    flits_[node] += packet.flits;
    total_ += packet.flits;
    latency_ += static_cast<double>(now - packet.born);
    ++packets_;
  }

  std::uint64_t flits(NodeId node) const { return flits_[node]; }
  std::uint64_t total() const { return total_; }  // since the beginning
  double mean_latency() const {
    return packets_ == 0 ? 0 : latency_ / static_cast<double>(packets_);
  }
  std::uint64_t packets() const { return packets_; }

 private:
  std::vector<std::uint64_t> flits_;
  std::uint64_t total_ = 0;
  double latency_ = 0;
  std::uint64_t packets_ = 0;
};

}  // namespace weir::sim::network
