// Divides settings for a whole process among its rails.
//
// Pure; any thread.
#pragma once

#include <cstdint>

#include "transport/config/settings.h"

namespace weir::config {

// The settings of one of `rails` rails: caps on memory and on reads are divided among them. Each
// has its first buffers, one read and one chunk in any case. `auto` stays; the caller that resolves
// it divides the result.
Settings for_each_rail(const Settings& settings, std::uint32_t rails);

}  // namespace weir::config
