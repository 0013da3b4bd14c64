// The value of `eager_max: auto`. Shared by the plugin and the weir command, which shows it.
#pragma once

#include <cstddef>

namespace weir::btl {

// Beyond these sizes a read is faster than the copies (tests/bench/README.md). With several rails
// the read may use an idle one. On a node with more processes than processors each sender waits for
// its turn, while the readers share the work.
inline constexpr std::size_t eager_max_of_one_rail = 64 << 10;
inline constexpr std::size_t eager_max_of_a_full_node = 48 << 10;
inline constexpr std::size_t eager_max_among_rails = 32 << 10;

inline std::size_t automatic_eager_max(std::size_t rails, bool node_is_full) {
  if (rails > 1) return eager_max_among_rails;
  return node_is_full ? eager_max_of_a_full_node : eager_max_of_one_rail;
}

}  // namespace weir::btl
