#pragma once

#include <cstdint>

#include "base/time.h"

namespace weir {

inline constexpr std::uint64_t KiB = 1 << 10;
inline constexpr std::uint64_t MiB = 1 << 20;
inline const Time start = Time{} + seconds(1000);

}  // namespace weir
