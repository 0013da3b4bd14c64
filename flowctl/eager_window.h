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
// A share follows what its peer uses. `min_credits` of the window are reserved for each peer;
// otherwise one that hoards credits and falls silent could stop all others for ever. The peers that
// are active have the rest, in equal parts: those that spent a credit in this epoch or in the one
// before. An epoch is so many frames, not a time: peers that all compute at once stay active.
// Credits are topped up to the share, piggybacked on any frame to that peer, or by a control frame
// once half of them are spent; if our messages answer the peer's, not before nearly all are. What
// an idle peer holds beyond its least it may keep until others need it.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir {

class EagerWindow {
 public:
  struct Config {
    // Receive buffers kept per peer for its control frames: at least 2, as a recall leaves one.
    std::uint32_t control_reserve = 2;
    std::uint32_t min_credits = 2;    // the least a peer holds
    std::uint32_t max_credits = 256;  // the most a peer holds
  };

  // One peer's part. Lives in the core's peer record.
  struct Share {
    std::uint32_t out = 0;    // credits that the peer holds, or that travel to it
    std::uint64_t epoch = 0;  // in which it spent its last credit
    bool joined = false;
    std::uint8_t came = 0;  // of the last frames of messages between us, those from the peer
    std::uint8_t went = 0;  // and those to it
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
  bool can_spare_held() const { return window_ > 0 && used() <= capacity(window_ - 1) + 1; }

  // Released buffers that may stay unposted, to be posted in one go.
  static std::uint32_t slack(std::uint32_t window) { return window / 8; }
  std::uint32_t slack() const { return slack(window_); }

  // So many peers may come, and the window may grow to `most` buffers. Credits beyond the least
  // leave room for the least of peers still to come. But half of the window may always be lent.
  void expect(std::uint32_t peers, std::uint32_t most) {
    expected_ = std::max(expected_, peers);
    most_ = most;
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
    if (is_active(share)) --(share.epoch == epoch_ ? used_now_ : used_before_);
    share = {};
    --peers_;
    retarget();
  }

  // A frame of messages arrived. False if the peer held no credit for it.
  bool spend(Share& share) {
    if (share.out == 0) return false;
    set_out(share, share.out - 1);
    count(share, share.came);
    if (share.epoch != epoch_) [[unlikely]]
      use(share);
    if (++spent_ >= epoch_frames_) [[unlikely]]
      begin_epoch();
    return true;
  }

  // Whether the peer sends.
  bool is_active(const Share& share) const { return share.joined && share.epoch + 1 >= epoch_; }
  // Moves when it changes who is active: then peers may hold more than their share.
  std::uint64_t turns() const { return turns_; }

  // A frame of messages goes to the peer.
  static void note_went(Share& share) { count(share, share.went); }

  // More than half as many went to the peer as came from it: most likely the next one goes before
  // it has spent its share, and can carry credits. (One alone may be what made the connection.)
  static bool is_answered(const Share& share) { return share.went * 2 > share.came + 1; }

  // Credits to grant the peer now, at most `most`; they count as out from here on.
  std::uint32_t top_up(Share& share, std::uint32_t most) {
    const std::uint32_t count = std::min(available(share), most);
    if (count > 0) set_out(share, share.out + count);
    return count;
  }

  // What `top_up` would give.
  std::uint32_t available(const Share& share) const { return available(share, target(share)); }
  std::uint32_t available(const Share& share, std::uint32_t most) const {
    if (!share.joined || share.out >= most) return 0;
    // Its least may come from the reserved credits; the rest only from credits that no peer may
    // claim.
    const std::uint32_t claims = used();
    const std::uint32_t unclaimed = unreserved_ > claims ? unreserved_ - claims : 0;
    const std::uint32_t own = std::min(owed(share), headroom());
    return std::min(most - share.out, own + unclaimed);
  }

  // The first credits of a peer that may be about to send: as many as each expected peer could
  // have.
  std::uint32_t first(Share& share) {
    const std::uint32_t each = capacity(goal_) / std::max(peers_, expected_);
    const std::uint32_t count =
        available(share, std::clamp(each, config_.min_credits, most_credits()));
    set_out(share, share.out + count);
    return count;
  }

  // Gives a peer its least credits, whether or not there is room. Returns the credits given beyond
  // the window.
  std::uint32_t overcommit(Share& share) {
    const std::uint32_t count = owed(share);
    set_out(share, share.out + count);
    return count;
  }

  // A peer's least is not covered even if no buffer is held, because the peers hold too
  // many credits: waiting does not help.
  bool overdrawn() const { return out_ + owed_ > capacity_; }

  // What the peer holds beyond its share: it is idle, or the window shrank.
  std::uint32_t excess(const Share& share) const {
    const std::uint32_t most = target(share);
    return share.joined && share.out > most ? share.out - most : 0;
  }

  // The peer gives credits back unused. False if it never had so many.
  bool give_back(Share& share, std::uint32_t credits) {
    if (credits > share.out) return false;
    set_out(share, share.out - credits);
    return true;
  }

  // Credits of a lost or refused greeting come back.
  void take_back(Share& share) { set_out(share, 0); }

  // More than half of the share is spent, or more than seven eighths where messages answer each
  // other: give some back now, by a control frame if need be.
  bool low(const Share& share) const {
    const std::uint32_t full = target(share);
    return share.out * 2 < full && share.joined && (!is_answered(share) || share.out * 8 < full);
  }

  // This peer cannot be topped up to half of its share, because others hold the credits.
  bool short_of(const Share& share) const {
    return low(share) && (share.out + available(share)) * 2 < target(share);
  }

  std::uint32_t out() const { return out_; }
  std::uint32_t peers() const { return peers_; }
  // The share of the peer.
  std::uint32_t target(const Share& share) const {
    return is_active(share) ? target_ : config_.min_credits;
  }

  // Whether a larger window would mean larger shares.
  bool may_widen() const { return target_ < config_.max_credits; }

  std::uint32_t control_reserve() const { return config_.control_reserve; }

  // Credits that can be given without exceeding the window less slack and reserve.
  std::uint32_t headroom() const {
    const std::uint32_t given = out_ + held_;
    return capacity_ > given ? capacity_ - given : 0;
  }

 private:
  // When one of the two counts reaches 64, both are halved: older frames count less.
  static void count(Share& share, std::uint8_t& frames) {
    if (++frames < 64) [[likely]]
      return;
    share.came /= 2;
    share.went /= 2;
  }

  // What the peer may still claim of its least.
  std::uint32_t owed(const Share& share) const {
    return share.joined && share.out < config_.min_credits ? config_.min_credits - share.out : 0;
  }

  void set_out(Share& share, std::uint32_t out) {
    const bool owes = std::min(share.out, out) < config_.min_credits;
    if (owes) owed_ -= owed(share);
    out_ = out_ - share.out + out;
    share.out = out;
    if (owes) owed_ += owed(share);
  }

  // Given out, held, or reserved.
  std::uint32_t used() const { return out_ + held_ + owed_; }

  // The window whose seven eighths are `buffers`.
  static std::uint32_t with_slack(std::uint32_t buffers) { return buffers + (buffers + 6) / 7; }

  std::uint32_t capacity(std::uint32_t window) const {
    const std::uint32_t kept = peers_ * config_.control_reserve + slack(window);
    return window > kept ? window - kept : 0;
  }

  std::uint32_t most_credits() const { return std::max(config_.min_credits, config_.max_credits); }

  void begin_epoch() {
    ++epoch_;
    ++turns_;
    used_before_ = used_now_;
    used_now_ = spent_ = 0;
    retarget();
  }

  void use(Share& share) {
    const bool was_active = share.epoch + 1 == epoch_;
    if (was_active) --used_before_;
    share.epoch = epoch_;
    ++used_now_;
    if (was_active) return;
    ++turns_;
    retarget();
  }

  // The window, the peers, or who of them is active changed.
  [[gnu::noinline]] void retarget() {
    const std::uint32_t to_come = expected_ > peers_ ? expected_ - peers_ : 0;
    const std::uint32_t kept = to_come * (config_.min_credits + config_.control_reserve);
    const std::uint32_t all = capacity(most_);
    capacity_ = capacity(window_);
    unreserved_ = std::min(capacity_, std::max(all > kept ? all - kept : 0, all / 2));
    epoch_frames_ = std::max(goal_, 256u);
    const std::uint32_t active = used_now_ + used_before_;
    const std::uint32_t for_idle = (peers_ - active) * config_.min_credits;
    const std::uint32_t room = capacity(goal_);
    target_ = active == 0 ? 0
                          : std::clamp((room > for_idle ? room - for_idle : 0) / active,
                                       config_.min_credits, most_credits());
  }

  Config config_;
  std::uint32_t goal_ = 0;    // W
  std::uint32_t window_ = 0;  // buffers that exist
  std::uint32_t peers_ = 0;
  std::uint32_t expected_ = 0;
  std::uint32_t most_ = UINT32_MAX;   // buffers that the window may grow to
  std::uint32_t capacity_ = 0;        // of the window: what credits and held buffers may take
  std::uint32_t unreserved_ = 0;      // of that, what may be lent beyond the least
  std::uint32_t epoch_frames_ = 256;  // long enough that whoever sends is seen in it
  std::uint32_t out_ = 0;
  std::uint32_t owed_ = 0;  // sum over all peers
  std::uint32_t held_ = 0;
  std::uint32_t target_ = 0;  // of an active peer
  std::uint64_t epoch_ = 2;   // no share's yet
  std::uint64_t turns_ = 0;
  std::uint32_t spent_ = 0;        // in this epoch
  std::uint32_t used_now_ = 0;     // peers that spent in it
  std::uint32_t used_before_ = 0;  // and in the last one, but not yet in this one
};

}  // namespace weir
