// When to throttle at all: Algorithm 1 of [TOK §7], with the paper's parameters and names.
//
//   CCT[size]                  concurrency congestion threshold: the number of active cores that
//                              lowers the throughput of blocking communication
//   NRCT[size]                 node congestion threshold: outstanding messages of the node that
//                              maximize throughput
//   CRCT[active_cores][size]   core congestion threshold: outstanding messages of one core that
//                              maximize throughput, with that many cores active
//
//   if active_cores < CCT[size]
//     if active_node_msgs < NRCT[size] and active_msg < CRCT[active_cores][size]  inject
//     else                                                                        avoid_RC
//   else                                                                          avoid_CC_RC
//
// Below the thresholds a request goes straight through: throttling could only delay it. [TOK §6]
// With no thresholds set, all requests do.
//
// Both avoid_* limit by count, as in [TOK]. Differs: where the node's processes share no pool, both
// limit by rate, which needs no knowledge of the others.
//
// Pure, but to set a CRCT may allocate: the whole table would be too large for a small stack. Any
// number of threads may read, but not while one sets.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flowctl/size_class.h"

namespace weir {

class Thresholds {
 public:
  static constexpr std::uint32_t no_limit = UINT32_MAX;
  static constexpr std::uint32_t most_cores = 256;

  // The result of MSG_INIT.
  enum class Congestion : std::uint8_t { none, rate, concurrency_and_rate };

  // What to do with the request.
  enum class Admission : std::uint8_t { straight_through, count_limit, rate_limit };

  Thresholds() {
    cct_.fill(no_limit);
    nrct_.fill(no_limit);
  }

  // By size class (size_class.h). 0: always throttled; no_limit: never for this reason.
  void set_cct(unsigned size_class, std::uint32_t cores) { cct_[size_class] = cores; }
  void set_nrct(unsigned size_class, std::uint32_t messages) { nrct_[size_class] = messages; }
  // Applies to exactly `active_cores` (1 … most_cores; clamped to these) and this size class.
  void set_crct(std::uint32_t active_cores, unsigned size_class, std::uint32_t messages) {
    BySize none;
    none.fill(no_limit);
    if (crct_.size() <= row(active_cores)) crct_.resize(row(active_cores) + 1, none);
    crct_[row(active_cores)][size_class] = messages;
  }

  std::uint32_t cct(std::uint64_t bytes) const { return cct_[size_class(bytes)]; }
  std::uint32_t nrct(std::uint64_t bytes) const { return nrct_[size_class(bytes)]; }
  std::uint32_t crct(std::uint32_t active_cores, std::uint64_t bytes) const {
    const std::size_t at = row(active_cores);
    return at < crct_.size() ? crct_[at][size_class(bytes)] : no_limit;
  }

  // MSG_INIT for a message of `bytes`. `active_cores`: processes of the node with requests under
  // way, including this one; `active_node_msgs`, `active_msg`: requests under way of the node and
  // of this process, without the new one.
  Congestion congestion(std::uint64_t bytes, std::uint32_t active_cores,
                        std::uint64_t active_node_msgs, std::uint64_t active_msg) const {
    if (active_cores >= cct(bytes)) return Congestion::concurrency_and_rate;
    const bool below = active_node_msgs < nrct(bytes) && active_msg < crct(active_cores, bytes);
    return below ? Congestion::none : Congestion::rate;
  }

  // `pool`: the process shares a token pool with its node.
  Admission admission(std::uint64_t bytes, std::uint32_t active_cores,
                      std::uint64_t active_node_msgs, std::uint64_t active_msg, bool pool) const {
    const Congestion found = congestion(bytes, active_cores, active_node_msgs, active_msg);
    if (found == Congestion::none) return Admission::straight_through;
    return pool ? Admission::count_limit : Admission::rate_limit;
  }

 private:
  using BySize = std::array<std::uint32_t, size_classes>;

  static std::size_t row(std::uint32_t active_cores) {
    return std::clamp(active_cores, 1u, most_cores) - 1;
  }

  BySize cct_;
  BySize nrct_;
  std::vector<BySize> crct_;  // beyond its end: no limits
};

}  // namespace weir
