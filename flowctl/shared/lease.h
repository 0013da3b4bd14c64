// A lease: one word of shared memory that names the process owning a slot or a server token, so
// that others can tell when that process has ended. Taking, giving up and reaping are one
// compare-and-exchange each: a process may be killed before it or after it, never in the middle.
//
//   generation 8 | start time 33 | left 1 | process id 22          process id 0: free
//
// A process id alone may be reused; together with the start time of its process it is unique. The
// generation goes up with each new owner: a process that still has an old lease in hand (a reaper
// that was not scheduled for a while) finds that the word has changed.
//
// Pure.
#pragma once

#include <cstdint>

namespace weir {

// A process of this machine, as in /proc: ids go up to 2^22; the start time is in clock ticks since
// boot, here modulo 2^33 (2.7 years).
struct ProcessId {
  std::uint32_t pid = 0;
  std::uint64_t start_ticks = 0;

  friend constexpr bool operator==(const ProcessId&, const ProcessId&) = default;
};

namespace lease {

inline constexpr unsigned pid_bits = 22;
inline constexpr unsigned start_bits = 33;
inline constexpr std::uint64_t pid_mask = (std::uint64_t{1} << pid_bits) - 1;
inline constexpr std::uint64_t left_bit = std::uint64_t{1} << pid_bits;
inline constexpr std::uint64_t start_mask = (std::uint64_t{1} << start_bits) - 1;
inline constexpr unsigned generation_shift = pid_bits + 1 + start_bits;

constexpr bool free(std::uint64_t lease) { return (lease & pid_mask) == 0; }

constexpr ProcessId process(std::uint64_t lease) {
  return {static_cast<std::uint32_t>(lease & pid_mask), (lease >> (pid_bits + 1)) & start_mask};
}

// The lease when `owner` takes it; it was `before` (a free one).
constexpr std::uint64_t taken(std::uint64_t before, ProcessId owner) {
  const std::uint64_t generation = ((before >> generation_shift) + 1) & 0xff;
  return generation << generation_shift | (owner.start_ticks & start_mask) << (pid_bits + 1) |
         (owner.pid & pid_mask);
}

// The owner lives but will not touch the slot any more: counts as dead.
constexpr std::uint64_t left(std::uint64_t lease) { return lease | left_bit; }
constexpr bool is_left(std::uint64_t lease) { return (lease & left_bit) != 0; }

// The lease when freed; keeps the generation.
constexpr std::uint64_t freed(std::uint64_t lease) {
  return lease >> generation_shift << generation_shift;
}

// Whether the slot or token of `lease` may be reaped. `alive(ProcessId)` is asked only if need be.
template <typename Alive>
bool expired(std::uint64_t lease, Alive&& alive) {
  return !free(lease) && (is_left(lease) || !alive(process(lease)));
}

}  // namespace lease
}  // namespace weir
