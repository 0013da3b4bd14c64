// Eager credits, receiving side: how many frames each peer may still send into our shared receive
// queue. The invariant, whatever the peers do:
//
//   credits out + buffers held <= W - slack - reserve
//
// where `slack` buffers may wait to be posted again and `reserve` is kept for control frames. So
// every credit has a posted buffer behind it and RNR NAKs stay the exception. (One way past it:
// when the window is at W_max and too much of it is given away, a peer still gets `min_credits`,
// because with none it could wait for ever; this is counted, and RNR NAKs catch it.)
//
// Every peer has the same target share. Credits are topped up to it, piggybacked on any frame to
// that peer, or by a control frame once half of them are spent. `min_credits` of each peer's share
// are reserved for it: otherwise a peer that hoards credits and falls silent could stop all others
// for ever.
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
    std::uint32_t min_credits = 2;      // the least a peer holds
    std::uint32_t max_credits = 256;    // the most a peer holds
  };

  // One peer's part. Lives in the core's peer record.
  struct Share {
    std::uint32_t out = 0;  // credits that the peer holds, or that travel to it
    bool joined = false;
  };

  explicit EagerWindow(const Config& config) : config_(config) {}

  // The receive window is now `buffers`. While it shrinks, peers still hold credits for more:
  // `backed` buffers exist, and the shares follow `buffers`.
  void set_window(std::uint32_t buffers, std::uint32_t backed) {
    goal_ = buffers;
    window_ = backed;
    retarget();
  }
  void set_window(std::uint32_t buffers) { set_window(buffers, buffers); }

  // Whether the window without one of the held buffers would still cover all credits given out or
  // reserved.
  bool can_spare_held() const {
    return window_ > 0 && out_ + held_ + owed_ <= capacity(window_ - 1) + 1;
  }

  // Released buffers that may stay unposted, to be posted in one go.
  static std::uint32_t slack(std::uint32_t window) { return window / 8; }
  std::uint32_t slack() const { return slack(window_); }

  // Limits the credits of one peer, but never below the least.
  void set_max_credits(std::uint32_t credits) {
    config_.max_credits = std::min(config_.max_credits, credits);
    retarget();
  }

  // Buffers that hold a message being delivered.
  void set_held(std::uint32_t buffers) { held_ = buffers; }

  // The receive window that lets the peer of `share` join the present ones: W - W/8 must cover
  // everything given out and everything each peer may claim.
  std::uint32_t floor(const Share& share) const {
    const std::uint32_t peers = peers_ + (share.joined ? 0 : 1);
    const std::uint32_t owed = owed_ + (share.joined ? 0 : config_.min_credits);
    return with_slack(out_ + held_ + owed + peers * config_.control_reserve);
  }

  // The receive window that so many peers need, if each holds its least.
  std::uint32_t least_window(std::uint32_t peers) const {
    return with_slack(peers * (config_.min_credits + config_.control_reserve));
  }
  std::uint32_t least_window() const { return least_window(peers_); }

  void join(Share& share) {
    if (share.joined) return;
    share.joined = true;
    owed_ += owed(share);
    ++peers_;
    retarget();
  }

  void leave(Share& share) {
    if (!share.joined) return;
    set_out(share, 0);
    owed_ -= owed(share);
    share = {};
    --peers_;
    retarget();
  }

  // A frame of messages arrived. False if the peer held no credit for it.
  bool spend(Share& share) {
    if (share.out == 0) return false;
    set_out(share, share.out - 1);
    return true;
  }

  // Credits to grant the peer now, at most `most`; they count as out from here on.
  std::uint32_t top_up(Share& share, std::uint32_t most) {
    const std::uint32_t count = std::min(available(share), most);
    if (count > 0) set_out(share, share.out + count);
    return count;
  }

  // What `top_up` would give.
  std::uint32_t available(const Share& share) const {
    if (!share.joined || share.out >= target_) return 0;
    const std::uint32_t room = headroom();
    const std::uint32_t own = std::min(owed(share), room);
    const std::uint32_t unclaimed = room > owed_ ? room - owed_ : 0;
    return std::min(target_ - share.out, own + unclaimed);
  }

  // Gives a peer its least credits, whether or not there is room. Returns the credits given beyond
  // the window.
  std::uint32_t overcommit(Share& share) {
    const std::uint32_t count = owed(share);
    set_out(share, share.out + count);
    return count;
  }

  // So much is given away that a peer's least is not covered even if no buffer is held: waiting
  // does not help.
  bool overdrawn() const { return out_ + owed_ > capacity(); }

  // What the peer holds beyond its share, because the window shrank.
  std::uint32_t excess(const Share& share) const {
    return share.joined && share.out > target_ ? share.out - target_ : 0;
  }

  // The peer gives credits back unused. False if it never had so many.
  bool give_back(Share& share, std::uint32_t credits) {
    if (credits > share.out) return false;
    set_out(share, share.out - credits);
    return true;
  }

  // Credits of a lost or refused greeting come back.
  void take_back(Share& share) { set_out(share, 0); }

  // Half of the share is spent: give some back now, by a control frame if need be.
  bool low(const Share& share) const {
    return share.joined && share.out * 2 <= target_ && share.out < target_;
  }

  std::uint32_t out() const { return out_; }
  std::uint32_t peers() const { return peers_; }
  std::uint32_t target() const { return target_; }

  // Whether a larger window would mean larger shares.
  bool may_widen() const { return target_ < config_.max_credits; }

  std::uint32_t control_reserve() const { return config_.control_reserve; }

  // Credits that can be given without exceeding the window less slack and reserve.
  std::uint32_t headroom() const {
    const std::uint32_t room = capacity();
    const std::uint32_t used = out_ + held_;
    return room > used ? room - used : 0;
  }

 private:
  // What the peer may still claim of its least.
  std::uint32_t owed(const Share& share) const {
    return share.joined && share.out < config_.min_credits ? config_.min_credits - share.out : 0;
  }

  void set_out(Share& share, std::uint32_t out) {
    owed_ -= owed(share);
    out_ = out_ - share.out + out;
    share.out = out;
    owed_ += owed(share);
  }

  // The window whose seven eighths are `buffers`.
  static std::uint32_t with_slack(std::uint32_t buffers) { return buffers + (buffers + 6) / 7; }

  std::uint32_t capacity(std::uint32_t window) const {
    const std::uint32_t kept = peers_ * config_.control_reserve + slack(window);
    return window > kept ? window - kept : 0;
  }
  std::uint32_t capacity() const { return capacity(window_); }

  void retarget() {
    target_ = peers_ == 0 ? 0
                          : std::clamp(capacity(goal_) / peers_, config_.min_credits,
                                       std::max(config_.min_credits, config_.max_credits));
  }

  Config config_;
  std::uint32_t goal_ = 0;    // W
  std::uint32_t window_ = 0;  // buffers that exist
  std::uint32_t peers_ = 0;
  std::uint32_t out_ = 0;
  std::uint32_t owed_ = 0;  // sum over all peers
  std::uint32_t held_ = 0;
  std::uint32_t target_ = 0;
};

}  // namespace weir
