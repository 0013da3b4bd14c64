// The caps of a process that may change while it runs (`weir set`), by the names of their keys.
//
// A value. Whoever reads it from another process's memory may find any numbers in it.
#pragma once

#include <array>
#include <cstdint>

namespace weir {

inline constexpr std::array cap_names{"window_max", "receive_memory_max", "reads_max",
                                      "reads_window_max", "tokens", "rate_max"};

// As the settings have them: -1 is auto.
using Caps = std::array<std::int64_t, cap_names.size()>;
inline constexpr std::size_t window_max_cap = 0;

}  // namespace weir
