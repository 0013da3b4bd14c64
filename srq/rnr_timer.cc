#include "srq/rnr_timer.h"

#include <algorithm>
#include <array>

namespace weir {
namespace {

// In units of 10 us, by code. Code 0 is the longest, the rest ascend.
constexpr std::array<std::int32_t, 32> timer_10us = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

// Ranks codes by rising duration.
std::int64_t rank(std::uint8_t code) { return code == 0 ? 32 : code; }

constexpr Duration least_advised = microseconds(80);
constexpr Duration least_per_sender = microseconds(1);
constexpr Duration most_advised = microseconds(10240);

std::int64_t distance(std::int64_t a, std::int64_t b) { return a < b ? b - a : a - b; }

}  // namespace

std::uint8_t rnr_timer_code(Duration wanted) {
  for (std::uint8_t code = 1; code < timer_10us.size(); ++code) {
    if (rnr_timer_duration(code) >= wanted) return code;
  }
  return 0;
}

Duration rnr_timer_duration(std::uint8_t code) { return microseconds(10) * timer_10us[code & 31]; }

bool RnrAdvisor::add(Duration empty, std::uint32_t senders) {
  if (!any_) {
    any_ = true;
    smoothed_ = empty;
    deviation_ = empty / 2;
  } else {
    const std::int64_t off = empty.ns - smoothed_.ns;
    smoothed_.ns += off / 8;
    deviation_.ns += (distance(off, 0) - deviation_.ns) / 4;
  }
  const Duration least = std::max(least_advised, least_per_sender * senders);
  const Duration learned = std::min(Duration{smoothed_.ns + 2 * deviation_.ns}, most_advised);
  const std::uint8_t wanted = rnr_timer_code(std::max(learned, least));
  if (distance(rank(wanted), rank(code_)) < 2) return false;
  code_ = wanted;
  return true;
}

}  // namespace weir
