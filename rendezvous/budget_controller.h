// The read budget c, fixed or adaptive: how many bytes of reads the whole receiving side keeps in
// the fabric, and how large a chunk may be.
//
// fixed: c chunks, as in [RDRP §3.3]; bytes are not bounded.
// adaptive: a window of bytes that begins with slow start (it doubles in a round trip); then, once
// per round trip, the bytes queued in the fabric,
//
//   window * (1 - base / RTT),    are kept within [q, 2q]   (the idea of TCP Vegas),
//
// where an RTT is a chunk's post-to-completion time, and base that of a short read in an empty
// fabric. Below q the window grows by a chunk, if it held chunks back; above 2q it gives up half of
// the excess, at least a chunk. Three round trips in a row with less than q/2 mean slow start
// again, so that a window does not crawl back after a slow phase. Slow start ends above q, with the
// window that would have had q; the round trip after it is not judged, because its chunks were
// posted before.
//
// q is three times what is under way without a queue, window * base / RTT: what the receiver takes
// in three base times. So it is short for a receiver that takes little, whose queue would fill the
// buffers of its switch and then those that others need; no buffer's size has to be known. q is at
// most queue_bytes, or a 32nd of what is under way.
//
// A chunk is at most a third of the window, for a queue cannot be shorter than a chunk.
//
// base is the least time of any chunk. So that there is one of a short read, the first chunk into
// an empty fabric is short (a sounding), once in half a `base_age`. base ages. If the route gets
// longer, all the extra time looks like queue; if it gets shorter under load, our own queue takes
// its place and the times stay the same. So if for `base_age` no chunk that was alone in the fabric
// confirmed it, soundings go one at a time (a probe). The least of their times is the new base, and
// the window is restored.
//
// A look for completions that finds several came late, because the application computes: the times
// tell little about the fabric. If half of the reads of a round trip were found after others, the
// window stays at least 2 * queue_bytes.
//
// Differs: [RDRP] has a constant c, chosen for one fabric; for others it is too large or too small.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weir {

class BudgetController {
 public:
  struct Config {
    bool adaptive = true;
    std::uint32_t reads = 16;                 // c, if fixed
    std::uint32_t most_reads = 128;           // adaptive: most reads at a time, however small
    std::uint64_t initial_bytes = 128 << 10;  // first window
    std::uint64_t least_bytes = 32 << 10;
    std::uint64_t most_bytes = 16 << 20;
    std::uint64_t queue_bytes = 128 << 10;  // most of q
    std::uint32_t chunk_bytes = 128 << 10;  // the largest chunk
    Duration base_age = seconds(1);
  };

  enum class Phase : std::uint8_t { slow_start, steady, probe };

  explicit BudgetController(const Config& config);

  // Other bounds from here on: `adaptive`, c, and how many bytes at least and most. A window that
  // adapts anew begins as the first one did.
  void limit(const Config& config);

  // The limits for the budget.
  std::uint32_t reads() const { return config_.adaptive ? config_.most_reads : config_.reads; }
  std::uint64_t bytes() const;
  bool adaptive() const { return config_.adaptive; }
  // An adaptive window if the fabric holds 2q without a queue, and another 2q are queued.
  std::uint64_t most_usual_bytes() const {
    return std::min(4 * config_.queue_bytes, config_.most_bytes);
  }

  // A chunk had to wait for the budget. Only a window that holds chunks back grows.
  void on_limited() { limited_ = true; }

  // A read of `bytes` took `rtt`; 0: no measure, say because nobody looked for completions.
  // `outstanding_bytes` of all reads includes this one. True if the limits changed.
  bool on_read(Time now, std::uint32_t bytes, Duration rtt, std::uint64_t outstanding_bytes);

  // How large a chunk may be that is posted beside `outstanding_bytes`.
  std::uint32_t chunk_bytes(std::uint64_t outstanding_bytes) const {
    return sounds(outstanding_bytes) ? std::min(sounding_bytes, config_.chunk_bytes)
                                     : chunk_bytes();
  }
  // Of those that are no sounding.
  std::uint32_t chunk_bytes() const { return config_.adaptive ? chunk_ : config_.chunk_bytes; }

  Phase phase() const { return phase_; }
  // The best time of a chunk; 0 if there was none.
  Duration base_rtt() const { return {base_.ns}; }
  std::uint64_t window_bytes() const { return window_; }
  // Bytes queued in the fabric by the last round trip's estimate.
  std::uint64_t queued_bytes() const { return queued_; }
  std::uint64_t cuts() const { return cuts_; }
  std::uint64_t probes() const { return probes_; }

 private:
  static constexpr std::uint32_t probe_chunks = 4;
  static constexpr std::uint32_t quiet_round_trips = 3;
  static constexpr std::uint64_t queue_of_moving = 3;
  static constexpr std::uint64_t moving_of_queue = 32;
  static constexpr std::uint64_t chunks_of_window = 3;
  static constexpr std::uint32_t least_chunk = 16 << 10;
  // A packet; shorter by less than a quarter where a boundary is (chunk_plan.h).
  static constexpr std::uint32_t sounding_bytes = 4 << 10;

  struct Base {
    std::int64_t ns = 0;  // 0: none yet
    Time confirmed{};     // when a chunk alone in the fabric last confirmed it
  };

  bool sounds(std::uint64_t outstanding_bytes) const {
    return config_.adaptive &&
           (phase_ == Phase::probe || (sounding_due_ && outstanding_bytes == 0));
  }
  std::uint64_t queue_for(std::uint64_t moving_bytes) const;
  void learn(Time now, std::int64_t ns, bool alone);
  bool start_probe(Time now);
  bool on_probe(Time now, std::int64_t ns);
  bool end_probe(Time now);
  void end_round_trip(Time now);
  void begin_round_trip(Time now);
  void set_window(std::uint64_t bytes);

  Config config_;
  Phase phase_ = Phase::slow_start;
  std::uint64_t window_ = 0;
  std::uint32_t chunk_ = 0;
  Base base_;
  bool sounding_due_ = true;
  Time last_look_{};

  // This round trip.
  bool begun_ = false;
  Time since_{};
  bool settling_ = false;  // this round trip is not judged
  bool limited_ = false;
  std::uint32_t reads_ = 0;
  std::uint32_t late_reads_ = 0;  // that a look found after others
  std::uint64_t window_before_ = 0;
  std::uint64_t peak_outstanding_ = 0;
  double bytes_ = 0;
  double queued_share_ = 0;  // sum of bytes * (1 - base / RTT)

  std::uint32_t quiet_ = 0;  // quiet round trips in a row
  std::uint32_t probed_ = 0;
  std::uint64_t queued_ = 0;
  std::uint64_t cuts_ = 0;
  std::uint64_t probes_ = 0;
};

}  // namespace weir
