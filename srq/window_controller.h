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
      : configured_(std::max(config.max, 1u)),
        max_(configured_),
        room_(std::max(config.most, configured_)),
        depth_(room_),
        window_(std::clamp(config.initial, 1u, configured_)) {}

  std::uint32_t window() const { return window_; }
  std::uint32_t max() const { return max_; }  // W_max now

  // How many receives the SRQ must have room for.
  std::uint32_t room() const { return room_; }
  // No other W_max can be larger.
  std::uint32_t depth() const { return depth_; }

  // The SRQ is made now, with room for later needs: up to twice W_max, or 1024.
  void settle_room() {
    depth_ = room_ = std::max(max_, std::min(room_, std::max(2 * max_, 1024u)));
  }

  // W_max is another from here on, as far as the SRQ has room for it. Call `expect` again, and
  // lower W if it exceeds `max_by_demand`.
  void limit(const Config& config) {
    room_ = std::clamp(std::max(config.most, config.max), 1u, depth_);
    configured_ = max_ = std::clamp(config.max, 1u, room_);
  }

  // So many peers are expected that their least needs `least` buffers once all are there: W may
  // rise to that and W_max then, whatever early peers hold.
  void expect(std::uint32_t least) { max_ = std::max(max_, std::min(least + configured_, room_)); }

  // The value to arm the SRQ limit with.
  std::uint32_t limit() const { return window_ / 2; }

  // What demand may raise W to, while the least of the peers that are there is `least` buffers: the
  // configured W_max, or half of it beyond the least, so that active peers have something to share,
  // however many are idle.
  std::uint32_t max_by_demand(std::uint32_t least) const {
    return std::min(max_, std::max(configured_, least + configured_ / 2));
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
    window_ = std::max(window_, std::min(buffers, max_));
    return window_ > before;
  }

  // Lowers W to `buffers`.
  void shrink_to(std::uint32_t buffers) { window_ = std::clamp(buffers, 1u, window_); }

  // There was no memory for more than `buffers`: W stays at that for good.
  void cap(std::uint32_t buffers) {
    depth_ = room_ = max_ = std::clamp(buffers, 1u, max_);
    window_ = std::min({window_, configured_, max_});
  }

 private:
  std::uint32_t configured_;  // W_max without regard to peers
  std::uint32_t max_;         // W_max now: larger with the peers that are expected
  std::uint32_t room_;        // what W_max may be raised to, for more peers
  std::uint32_t depth_;       // the SRQ's, once it is made
  std::uint32_t window_;
};

}  // namespace weir
