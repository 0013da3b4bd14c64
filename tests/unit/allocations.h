// How often this program has asked for memory. allocations.cc replaces operator new, so programs
// that use it are made of nothing but the test that counts.
#pragma once

#include <cstdint>

namespace weir {

std::uint64_t allocations();

}  // namespace weir
