// The receive window W: how many receive buffers should be posted. [ARWS §3]
//
//   W_current = min(2^nlimit * W_initial, W_max)        Limit_current = W_current / 2
//
// Two things move W that are not in the paper: a floor that rises with every connected peer, and a
// peer's lack of eager credits. Differs: [ARWS] grows on limit events only, because credits do not
// bind its senders; ours hold credits for no more than W, so a burst can stop short of the limit
// and must ask.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir {

class WindowController {
 public:
  struct Config {
    std::uint32_t initial = 8;  // buffers
    std::uint32_t max = 256;    // buffers; W_max
    std::uint32_t most = 0;     // W_max may be raised to this for many peers; 0: not at all
  };

  explicit WindowController(const Config& config)
      : max_(std::max(config.max, 1u)),
        allowed_(max_),
        most_(std::max(config.most, max_)),
        window_(std::clamp(config.initial, 1u, max_)) {}

  std::uint32_t window() const { return window_; }
  std::uint32_t max() const { return allowed_; }

  // How many receives the SRQ must have room for.
  std::uint32_t most() const { return most_; }

  // The SRQ is made now, with room for later needs: up to twice W_max, or 1024.
  void settle_most() { most_ = std::max(allowed_, std::min(most_, std::max(2 * allowed_, 1024u))); }

  // So many peers are expected that their least needs `least` buffers once all are there: W may
  // rise to that and W_max then, whatever early peers hold.
  void expect(std::uint32_t least) { allowed_ = std::max(allowed_, std::min(least + max_, most_)); }

  // The value to arm the SRQ limit with.
  std::uint32_t limit() const { return window_ / 2; }

  // What demand may raise W to, while the least of the peers that are there is `least` buffers: the
  // configured W_max, or half of it beyond the least, so that active peers have something to share,
  // however many are idle.
  std::uint32_t max_by_demand(std::uint32_t least) const {
    return std::min(allowed_, std::max(max_, least + max_ / 2));
  }

  // A limit event came, or a peer ran out of credits: doubles W. True if W grew.
  bool grow(std::uint32_t least) {
    const std::uint32_t before = window_;
    window_ = std::max(before, std::min(before * 2, max_by_demand(least)));
    return window_ > before;
  }

  // Raises W to at least `buffers`, as far as W_max allows. True if W grew.
  bool raise_to(std::uint32_t buffers) {
    const std::uint32_t before = window_;
    window_ = std::max(window_, std::min(buffers, allowed_));
    return window_ > before;
  }

  // Lowers W to `buffers`.
  void shrink_to(std::uint32_t buffers) { window_ = std::clamp(buffers, 1u, window_); }

  // There was no memory for more than `buffers`: W stays at that for good.
  void cap(std::uint32_t buffers) {
    most_ = allowed_ = std::clamp(buffers, 1u, allowed_);
    max_ = std::min(max_, allowed_);
    window_ = std::min(window_, max_);
  }

 private:
  std::uint32_t max_;      // as configured
  std::uint32_t allowed_;  // with all peers that are expected
  std::uint32_t most_;     // what the SRQ holds, or memory allows
  std::uint32_t window_;
};

}  // namespace weir
