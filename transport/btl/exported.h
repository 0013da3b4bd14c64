// The description of registered memory for peers: Open MPI carries these bytes to them, as the
// handle of its layers above the BTL.
//
// A peer may find them wrong. osc/rdma keeps the handles of a dynamic window in a table, hands out
// pointers into it, and moves the entries when the target attaches or detaches memory. When a
// pointer is used, it may point at another region's handle, or at parts of two. So a handle says
// which memory its key covers. If that is not the memory asked for, the handle tells where to find
// the right key (directory.h).
//
// Plain values; any thread.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "base/access.h"
#include "rendezvous/transfer.h"
#include "transport/rail/divide.h"

namespace weir::btl {

// A checksum of words that change independently. It does not protect against forgery.
constexpr std::uint64_t mix(std::uint64_t before, std::uint64_t word) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  return (before ^ (before >> 32) ^ word) * odd;
}

// A key, the memory it covers, and what it does not allow.
struct Export {
  std::uint32_t rkey = 0;
  std::uint32_t check = 0;  // of the others; 0: nothing is exported here
  std::uint64_t address = 0;
  std::uint64_t length_bytes : 60 = 0;
  std::uint64_t lacks : 4 = 0;  // of Access: rights that were asked for and could not be had

  static constexpr Export of(std::uint32_t rkey, std::uint64_t address, std::uint64_t length_bytes,
                             Access lacks = Access::local_read) {
    Export made{rkey, 0, address, length_bytes & UINT64_MAX >> 4,
                static_cast<unsigned>(lacks) & 15};
    made.check = made.expected_check();
    return made;
  }

  friend bool operator==(const Export&, const Export&) = default;

  // False if these bytes mix two exports, or are no export.
  constexpr bool is_whole() const { return check != 0 && check == expected_check(); }

  constexpr bool covers(std::uint64_t from, std::uint64_t bytes) const {
    return is_whole() && from >= address && bytes <= length_bytes &&
           from - address <= length_bytes - bytes;
  }

  constexpr bool allows(Opcode opcode) const {
    Access needed = Access::remote_atomic;
    if (opcode == Opcode::read) needed = Access::remote_read;
    if (opcode == Opcode::write) needed = Access::remote_write;
    return (lacks & static_cast<unsigned>(needed)) == 0;
  }

 private:
  // Never 0.
  constexpr std::uint32_t expected_check() const {
    const std::uint64_t mixed =
        mix(mix(0, address ^ rkey), length_bytes | std::uint64_t{lacks} << 60);
    return static_cast<std::uint32_t>(mixed >> 32) | 1;
  }
};

// The keys of the same memory on the exporter's further rails.
struct SideExport {
  std::array<std::uint32_t, most_rails - 1> rkeys{};  // of the further rails; 0: none there
  // Bit 0: the memory is a window's, and not for messages. Bit k: rail k has another adapter than
  // the first one. One adapter may not see yet what another has written, and operations of two
  // adapters are not atomic to each other.
  std::uint8_t traits = 0;

  friend bool operator==(const SideExport&, const SideExport&) = default;

  static constexpr std::uint8_t window = 1;
  static constexpr std::uint8_t apart(std::size_t rail) {
    return static_cast<std::uint8_t>(1u << rail);
  }
  constexpr bool is_window() const { return (traits & window) != 0; }
  constexpr bool any() const { return rkeys != decltype(rkeys){}; }
  // The key for an operation with this opcode over this further rail; 0 if it must not go there.
  constexpr std::uint32_t rkey(Opcode opcode, std::size_t rail) const {
    const bool may = opcode == Opcode::read ||
                     (is_window() && (!is_atomic(opcode) || (traits & apart(rail)) == 0));
    return may ? rkeys[rail - 1] : 0;
  }
  // Rails where parts need reads before and behind them (rail/divisions.h).
  constexpr std::uint8_t fenced() const {
    return is_window() ? static_cast<std::uint8_t>(traits & ~window) : std::uint8_t{0};
  }
};

// The bytes of a handle that travel. All handles of an exporter name the same directory.
struct Exported {
  Export memory;
  std::uint64_t directory_address = 0;
  std::uint32_t directory_rkey = 0;
  std::uint16_t directory_entries = 0;  // 0: there is none
  std::uint16_t sides_check = 0;        // of `sides` together with `memory`
  SideExport sides{};

  constexpr void set_sides(const SideExport& with) {
    sides = with;
    sides_check = expected_check();
  }
  // Empty if the sides are not set, or mix two handles.
  constexpr SideExport whole_sides() const {
    return sides_check == expected_check() ? sides : SideExport{};
  }

 private:
  constexpr std::uint16_t expected_check() const {
    std::uint64_t mixed = mix(memory.check, sides.traits);
    for (const std::uint32_t rkey : sides.rkeys) mixed = mix(mixed, rkey);
    return static_cast<std::uint16_t>(mixed >> 48 | 1);
  }
};

// Copies bytes that another process may be writing, in no order: a checksum tells a mixture.
template <typename Bytes>
Bytes read_shared(const Bytes& shared) {
  constexpr std::size_t count = sizeof shared / sizeof(std::uint64_t);
  static_assert(sizeof shared % sizeof(std::uint64_t) == 0);
  std::array<std::uint64_t, count> words;
  const auto* const from = reinterpret_cast<const std::uint64_t*>(&shared);
  for (std::size_t i = 0; i < count; ++i) words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
  return std::bit_cast<Bytes>(words);
}
static_assert(sizeof(Export) == 24 && sizeof(Exported) == 56);
static_assert(std::is_trivially_copyable_v<Exported>);

// The export that covers these bytes, in a directory as it was read; nullptr if there is none.
const Export* find_export(std::span<const Export> directory, std::uint64_t address,
                          std::uint64_t bytes);

// "a read of 24 bytes at 0x7f0000001000 (key 0x1234 covers 4096 bytes at 0x7f0000001000)".
// `memory`: the key and its memory, by the handle.
std::string to_text(const TransferRequest& request, const Export& memory);

}  // namespace weir::btl
