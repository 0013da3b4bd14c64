// What registered memory may be used for.
#pragma once

#include <cstdint>

namespace weir {

// Local reading (sends, writes to a peer) is always allowed, anything else only if asked for, so
// that read-only memory can be registered. The bits are Open MPI's.
enum class Access : std::uint8_t {
  local_read = 0,
  local_write = 1,
  remote_read = 2,
  remote_write = 4,
  remote_atomic = 8,
  all = 15,
};
constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr Access operator&(Access a, Access b) {
  return static_cast<Access>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}
// Those of `all` that are not in `some`.
constexpr Access without(Access all, Access some) {
  return static_cast<Access>(static_cast<unsigned>(all) & ~static_cast<unsigned>(some));
}
constexpr bool includes(Access all, Access some) { return (all & some) == some; }

}  // namespace weir
