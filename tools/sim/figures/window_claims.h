// What figures of receive windows claim alike: an adaptive one of W_max 256 or 16, against one of
// 512 that is there from the start. The latter's series is that of the load with ", fixed".
//
// Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {

inline constexpr std::uint32_t fixed_window = 512;

// Of "memory_kib" and "window".
void add_memory_claims(const Results& results, const std::string& load, std::vector<Claim>& claims);
// `time` is the value that says how long it took.
void add_speed_claims(const Results& results, const std::string& load, const char* time,
                      std::vector<Claim>& claims);

}  // namespace weir::sim::figures
