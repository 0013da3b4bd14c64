// Plays the points of figures, several at a time. What comes out does not depend on how many: each
// point is a world of its own, and results are kept in the order of the points.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {

// Seeds are first_seed, first_seed + 1, …. `tell` is called after each point with how many are done
// and of how many, by one thread at a time.
std::vector<Results> play(const std::vector<Figure>& figures, unsigned jobs,
                          std::uint64_t first_seed,
                          const std::function<void(std::size_t done, std::size_t of)>& tell);

// As many as this process has cores.
unsigned cores();

}  // namespace weir::sim::figures
