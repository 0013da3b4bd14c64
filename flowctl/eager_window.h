// Eager credits, receiving side: how many frames each peer may still send into our shared receive
// queue. The invariant, whatever the peers do:
//
//   credits out + buffers held <= W - slack - reserve
//
// where `slack` buffers may wait to be posted again and `reserve` is kept for control frames. So
// every credit has a posted buffer behind it and RNR NAKs stay the exception. (The one way past
// it: a peer that joins when the window is at W_max and all of it is given away still gets
// `min_credits`, because with none it could wait for ever; counted, and RNR NAK is the net below.)
//
// Every peer has the same target share. Credits are topped up to it, piggybacked on whatever goes
// to that peer, or by a control frame once half of them are spent.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir {

class EagerWindow {
 public:
  struct Config {
    std::uint32_t control_reserve = 2;  // receive buffers kept per peer for its control frames
    std::uint32_t min_credits = 2;      // least a peer holds
    std::uint32_t max_credits = 256;    // most a peer holds
  };

  // One peer's part. Lives in the core's peer record.
  struct Share {
    std::uint32_t out = 0;  // credits the peer holds, or that travel to it
    bool joined = false;
  };

  explicit EagerWindow(const Config& config) : config_(config) {}

  // The receive window is now `buffers`.
  void set_window(std::uint32_t buffers) {
    window_ = buffers;
    retarget();
  }

  // Released buffers that may wait, unposted, to be posted in one go.
  static std::uint32_t slack(std::uint32_t window) { return window / 8; }

  // At most so many credits for one peer, but never less than the least.
  void set_max_credits(std::uint32_t credits) {
    config_.max_credits = std::min(config_.max_credits, credits);
    retarget();
  }

  // Buffers that hold a message being delivered.
  void set_held(std::uint32_t buffers) { held_ = buffers; }

  // The receive window that lets `more` peers join beside the present ones.
  std::uint32_t floor(std::uint32_t more) const {
    const std::uint32_t least = (peers_ + more) * (config_.control_reserve + config_.min_credits);
    return least + slack(least) + 1;
  }

  void join(Share& share) {
    if (share.joined) return;
    share.joined = true;
    ++peers_;
    retarget();
  }

  void leave(Share& share) {
    if (!share.joined) return;
    out_ -= share.out;
    share = {};
    --peers_;
    retarget();
  }

  // A frame of messages arrived. False if the peer held no credit for it.
  bool spend(Share& share) {
    if (share.out == 0) return false;
    --share.out;
    --out_;
    return true;
  }

  // Credits to tell the peer of now, at most `most`; they count as out from here on.
  std::uint32_t top_up(Share& share, std::uint32_t most) {
    if (!share.joined || share.out >= target_) return 0;
    const std::uint32_t count = std::min({target_ - share.out, headroom(), most});
    share.out += count;
    out_ += count;
    return count;
  }

  // The least for a peer that joins, whether or not there is room. Returns the credits given
  // beyond the window.
  std::uint32_t overcommit(Share& share) {
    if (share.out >= config_.min_credits) return 0;
    const std::uint32_t count = config_.min_credits - share.out;
    share.out += count;
    out_ += count;
    return count;
  }

  // Credits that a lost or refused greeting had carried come back.
  void take_back(Share& share) {
    out_ -= share.out;
    share.out = 0;
  }

  // Half of the share is spent: time to give some back, by a control frame if need be.
  bool low(const Share& share) const {
    return share.joined && share.out * 2 <= target_ && share.out < target_;
  }

  std::uint32_t out() const { return out_; }
  std::uint32_t peers() const { return peers_; }
  std::uint32_t target() const { return target_; }
  std::uint32_t control_reserve() const { return config_.control_reserve; }

  // Credits that can be given without exceeding the window less the reserve.
  std::uint32_t headroom() const {
    const std::uint32_t room = capacity();
    const std::uint32_t used = out_ + held_;
    return room > used ? room - used : 0;
  }

 private:
  std::uint32_t capacity() const {
    const std::uint32_t kept = peers_ * config_.control_reserve + slack(window_);
    return window_ > kept ? window_ - kept : 0;
  }

  void retarget() {
    target_ = peers_ == 0 ? 0
                          : std::clamp(capacity() / peers_, config_.min_credits,
                                       std::max(config_.min_credits, config_.max_credits));
  }

  Config config_;
  std::uint32_t window_ = 0;
  std::uint32_t peers_ = 0;
  std::uint32_t out_ = 0;
  std::uint32_t held_ = 0;
  std::uint32_t target_ = 0;
};

}  // namespace weir
