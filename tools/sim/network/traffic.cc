#include "tools/sim/network/traffic.h"

#include "tools/sim/network/ob1.h"
#include "tools/sim/network/pushing.h"
#include "tools/sim/network/reading.h"

namespace weir::sim::network {

std::unique_ptr<Traffic> Traffic::make(const Scenario& scenario, const Roles& roles,
                                       std::uint64_t seed) {
  if (ends(scenario.pattern)) return std::make_unique<Ob1>(scenario, seed);
  if (scenario.protocol == Protocol::push) return std::make_unique<Pushing>(scenario, roles);
  return std::make_unique<Reading>(scenario, roles);
}

}  // namespace weir::sim::network
