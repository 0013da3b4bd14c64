// Small worlds of the simulator, drawn from a seed: what their processes are set to and do, what
// goes wrong and when.
//
// Plain functions of the seed.
#pragma once

#include <cstdint>
#include <string>

#include "tools/sim/world.h"

namespace weir::sim {

// Of what goes wrong at a time. The draws of `several` are a stream of their own: with
// `one_at_most` a seed is the world it was before there were several.
enum class Trouble : std::uint8_t {
  one_at_most,  // and of queue pairs it breaks the one with the lowest number
  several,
  outages,   // several that no session ends with
  absences,  // none but that applications compute for long, for whom somebody stands in
  rails,     // of rails, of which each process has several (rail_world.h)
};
Plan random_plan(std::uint64_t seed, Trouble trouble = Trouble::several);
// In a line, for people.
std::string describe(const Plan& plan);

}  // namespace weir::sim
