// Points in time and durations, in nanoseconds of a monotonic clock that the caller owns.
//
// The core never reads a clock: the engine passes the system's, the simulator its own.
#pragma once

#include <compare>
#include <cstdint>

namespace weir {

struct Duration {
  std::int64_t ns = 0;

  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator*(Duration d, std::int64_t n) { return {d.ns * n}; }
  friend constexpr Duration operator/(Duration d, std::int64_t n) { return {d.ns / n}; }
};

constexpr Duration microseconds(std::int64_t n) { return {n * 1000}; }
constexpr Duration milliseconds(std::int64_t n) { return {n * 1000 * 1000}; }
constexpr Duration seconds(std::int64_t n) { return {n * 1000 * 1000 * 1000}; }

struct Time {
  std::int64_t ns = 0;

  // Later than every deadline: "no deadline".
  static constexpr Time never() { return {INT64_MAX}; }

  friend constexpr auto operator<=>(Time, Time) = default;
  friend constexpr Time operator+(Time t, Duration d) { return {t.ns + d.ns}; }
  friend constexpr Duration operator-(Time a, Time b) { return {a.ns - b.ns}; }
};

}  // namespace weir
