// `eager_max: auto`, for the plugin, and for the weir command, which says what the plugin would do.
#pragma once

#include <cstddef>

namespace weir::btl {

// From there on a read is faster than the copies (tests/bench/README.md). Among rails it may go over
// one that is idle. On a node with more processes than processors a sender waits for its turn to
// send, and those who read share the work.
inline constexpr std::size_t eager_max_of_one_rail = 64 << 10;
inline constexpr std::size_t eager_max_of_a_full_node = 48 << 10;
inline constexpr std::size_t eager_max_among_rails = 32 << 10;

inline std::size_t automatic_eager_max(std::size_t rails, bool node_is_full) {
  if (rails > 1) return eager_max_among_rails;
  return node_is_full ? eager_max_of_a_full_node : eager_max_of_one_rail;
}

}  // namespace weir::btl
