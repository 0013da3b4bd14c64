// What the nodes do for a whole run: endpoints that keep count.
#pragma once

#include <memory>

#include "tools/sim/network/endpoints.h"
#include "tools/sim/network/meter.h"
#include "tools/sim/network/network.h"
#include "tools/sim/network/scenario.h"

namespace weir::sim::network {

// The fabric of a scenario.
Network::Config network_config(const Scenario& scenario, const Roles& roles);

class Traffic : public Endpoints {
 public:
  static std::unique_ptr<Traffic> make(const Scenario& scenario, const Roles& roles,
                                       std::uint64_t seed);

  // Before the first event.
  virtual void begin(Network& network) { network_ = &network; }
  virtual double mean_reads() const { return 0; }
  // Nothing will be sent any more.
  virtual bool over() const { return false; }
  virtual Messages messages() const { return {}; }
  virtual std::uint64_t retried() const { return 0; }
  virtual std::uint64_t failed() const { return 0; }

  Meter& meter() { return meter_; }

 protected:
  explicit Traffic(std::uint32_t nodes) : meter_(nodes) {}
  Network& network() { return *network_; }
  Tick now() const { return network_->now(); }
  void count(NodeId node, const Packet& packet) { meter_.count(node, packet, now()); }

 private:
  Network* network_ = nullptr;
  Meter meter_;
};

}  // namespace weir::sim::network
