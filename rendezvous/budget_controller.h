// The read budget c, fixed or adaptive: how many bytes of reads the whole receiving side keeps in
// the fabric.
//
// fixed: c chunks, as in [RDRP §3.3]; bytes are not bounded.
// adaptive: a window of bytes that begins with slow start (it doubles in a round trip); then, once
// per round trip, the bytes queued in the fabric,
//
//   window * (1 - minRTT / RTT),    are kept within [q, 2q]   (the idea of TCP Vegas),
//
// where an RTT is a chunk's post-to-completion time. Below q the window grows by a step, if it held
// chunks back; above 2q it gives up half of the excess, at least a step. Three round trips in a row
// with less than q/2 mean slow start again, so that a window does not crawl back after a slow
// phase. Slow start ends above q, with the window that would have had q; the round trip after it is
// not judged, because its chunks were posted before. The estimate never takes the window below 2q,
// whatever the times are.
//
// q is queue_bytes, about the buffer of one switch port, but at most twice what is under way
// without a queue, window * minRTT / RTT: a receiver that takes little, or has a short path, keeps
// its link busy with less, and this bound also protects ports that buffer less than queue_bytes.
// But q is at least four steps (unless queue_bytes is less): an RTT also contains the queues of
// other flows, and flows with a long path would starve beside them. So with a queue_bytes of up to
// four steps, as by default, q is constant.
//
// An RTT includes the chunk's own serialisation, so times are compared only within size classes,
// four to an octave: minRTT is one number per class. Sizes of a class differ by at most a quarter,
// so at a saturated link a chunk counts at most a quarter of itself as a queue that does not exist.
// A class seen for the first time takes the minimum of the larger classes if that is less: a
// smaller chunk does not take longer.
//
// minRTT ages. If the route gets longer, all the extra time looks like queue; if it gets shorter
// under load, our own queue takes its place and the times stay the same. So if for `base_age` no
// chunk that was alone in the fabric confirmed minRTT, chunks go one at a time until a few were
// timed in the empty fabric. Their time is the new minimum (other size classes move by the same
// amount), and the window is restored. That idles the link for some four base round trips in a
// second; a receiver without traffic, or with one chunk at a time, never does it.
//
// Differs: [RDRP] has a constant c, chosen for one fabric; for others it is too large or too small.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/time.h"

namespace weir {

class BudgetController {
 public:
  struct Config {
    bool adaptive = true;
    std::uint32_t reads = 16;                 // c, if fixed
    std::uint32_t most_reads = 128;           // adaptive: most reads at a time, however small
    std::uint64_t initial_bytes = 512 << 10;  // first window
    std::uint64_t least_bytes = 128 << 10;
    std::uint64_t most_bytes = 16 << 20;
    std::uint64_t queue_bytes = 128 << 10;  // q
    std::uint64_t step_bytes = 128 << 10;   // a chunk
    Duration base_age = seconds(1);
  };

  enum class Phase : std::uint8_t { slow_start, steady, probe };

  explicit BudgetController(const Config& config);

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

  Phase phase() const { return phase_; }
  // The best time of chunks in this size class; 0 if there was none.
  Duration base_rtt(std::uint32_t bytes) const { return {bases_[size_class(bytes)].ns}; }
  std::uint64_t window_bytes() const { return window_; }
  // Bytes queued in the fabric by the last round trip's estimate.
  std::uint64_t queued_bytes() const { return queued_; }
  std::uint64_t cuts() const { return cuts_; }
  std::uint64_t probes() const { return probes_; }

 private:
  static constexpr unsigned size_classes = 4 * 32;
  static constexpr std::uint32_t probe_chunks = 4;
  static constexpr std::uint32_t quiet_round_trips = 3;
  static constexpr std::uint64_t queue_of_moving = 2;
  static constexpr std::uint64_t least_steps = 4;  // of a queue

  struct Base {
    std::int64_t ns = 0;      // 0: none yet
    Time confirmed{};         // when a chunk alone in the fabric last confirmed it
    std::int64_t before = 0;  // during a probe: the value before, if this class was measured
  };

  std::uint64_t queue_for(std::uint64_t moving_bytes) const;
  static unsigned size_class(std::uint32_t bytes);
  void learn(Base& base, unsigned size, Time now, std::int64_t ns);
  bool start_probe(Time now);
  bool on_probe(Time now, unsigned size, std::int64_t ns);
  bool end_probe(Time now);
  void end_round_trip(Time now);
  void begin_round_trip(Time now);
  void set_window(std::uint64_t bytes);

  Config config_;
  Phase phase_ = Phase::slow_start;
  std::uint64_t window_;
  std::array<Base, size_classes> bases_{};

  // This round trip.
  bool begun_ = false;
  Time since_{};
  bool settling_ = false;  // this round trip is not judged
  bool limited_ = false;
  std::uint64_t window_before_ = 0;
  std::uint64_t peak_outstanding_ = 0;
  double bytes_ = 0;
  double queued_share_ = 0;  // sum of bytes * (1 - minRTT / RTT)

  std::uint32_t quiet_ = 0;  // quiet round trips in a row
  std::uint32_t probed_ = 0;
  std::uint64_t queued_ = 0;
  std::uint64_t cuts_ = 0;
  std::uint64_t probes_ = 0;
};

}  // namespace weir
