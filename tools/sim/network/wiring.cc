#include "tools/sim/network/wiring.h"

#include "tools/sim/network/dragonfly.h"
#include "tools/sim/network/tree.h"

namespace weir::sim::network {

std::unique_ptr<Wiring> Wiring::make(const FabricConfig& config) {
  if (config.topology.shape == Shape::dragonfly) return std::make_unique<Dragonfly>(config);
  return std::make_unique<Tree>(config);
}

}  // namespace weir::sim::network
