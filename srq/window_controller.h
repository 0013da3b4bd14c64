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
        most_(std::max(config.most, max_)),
        window_(std::clamp(config.initial, 1u, max_)) {}

  std::uint32_t window() const { return window_; }
  std::uint32_t max() const { return max_; }

  // How many receives the SRQ must have room for.
  std::uint32_t most() const { return most_; }

  // The SRQ is made now, with room for later needs: up to twice W_max, or 1024.
  void settle_most() { most_ = std::max(max_, std::min(most_, std::max(2 * max_, 1024u))); }

  // So many peers are expected that they need `buffers`: raises W_max as far as allowed.
  void allow(std::uint32_t buffers) { max_ = std::max(max_, std::min(buffers, most_)); }

  // The value to arm the SRQ limit with.
  std::uint32_t limit() const { return window_ / 2; }

  // A limit event came, or a peer ran out of credits: doubles W. True if W grew.
  bool grow() {
    const std::uint32_t before = window_;
    window_ = std::min(window_ * 2, max_);
    return window_ > before;
  }

  // Raises W to at least `buffers`, as far as W_max allows. True if W grew.
  bool raise_to(std::uint32_t buffers) {
    const std::uint32_t before = window_;
    window_ = std::max(window_, std::min(buffers, max_));
    return window_ > before;
  }

  // Lowers W to `buffers`.
  void shrink_to(std::uint32_t buffers) { window_ = std::clamp(buffers, 1u, window_); }

  // There was no memory for more than `buffers`: W stays at that for good.
  void cap(std::uint32_t buffers) {
    most_ = max_ = std::clamp(buffers, 1u, max_);
    window_ = std::min(window_, max_);
  }

 private:
  std::uint32_t max_;
  std::uint32_t most_;
  std::uint32_t window_;
};

}  // namespace weir
