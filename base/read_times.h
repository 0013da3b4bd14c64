// How long RDMA reads took, from being posted until the process saw that they were over: a
// histogram whose buckets double. A process that computes sees the end late, and that counts: so
// long the read kept its part of the budget.
//
// Only of chunks that are posted one by one, for those of a chain wait for each other in the
// adapter; and only of 4 KiB and more, for a clock costs as much as a small read.
//
// A value; the caller serialises.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace weir {

struct ReadTimes {
  static constexpr std::size_t buckets = 16;
  // The first bucket has times below this, each further one times below twice the bound before it;
  // the last has all others (67 ms and more).
  static constexpr int first_bits = 12;  // 4.096 us
  static constexpr std::uint64_t below_ns(std::size_t bucket) {
    return std::uint64_t{1} << (first_bits + bucket);
  }

  std::array<std::uint64_t, buckets> counts{};
  std::uint64_t sum_ns = 0;

  void add(Duration time) {
    const auto ns = static_cast<std::uint64_t>(time.ns);
    const auto bucket = static_cast<std::size_t>(std::bit_width(ns >> first_bits));
    ++counts[std::min(bucket, buckets - 1)];
    sum_ns += ns;
  }

  friend bool operator==(const ReadTimes&, const ReadTimes&) = default;
};

}  // namespace weir
