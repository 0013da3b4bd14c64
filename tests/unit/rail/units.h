#pragma once

#include <cstdint>

namespace weir {

inline constexpr std::uint64_t MiB = 1 << 20;

}  // namespace weir
