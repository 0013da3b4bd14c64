#include "tools/sim/fabric.h"

#include "tools/sim/links.h"

namespace weir::sim {

Fabric::Fabric(const Timing& timing, const Hazards& hazards, std::uint64_t seed)
    : timing(timing), hazards(hazards), random(seed), wire(std::make_unique<Links>(*this)) {}

bool Fabric::step() {
  wire->catch_up();
  return events.step();
}

void Fabric::run_until(Time until) {
  for (wire->catch_up(); events.next() <= until; wire->catch_up()) events.step();
  events.run_until(until);
}

}  // namespace weir::sim
