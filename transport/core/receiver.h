// The receiving side of a process: the buffers behind its shared receive queue, the window W that
// follows the demand, and the credits that let peers use it.
//
// Whatever the peers do, credits out + buffers held <= W - slack - reserve
// (flowctl/eager_window.h), and a buffer is posted before a credit for it leaves. W grows when the
// SRQ limit is reached, when a peer that is not too slow for us lacks credits, and when credits
// need too many frames of their own; it shrinks when little of it was used for long.
//
// Knows no peers, only their shares. It sends nothing: the listener sends the frames needed.
//
// Pure; the caller serialises. Only `on_slab` allocates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/ids.h"
#include "base/now.h"
#include "base/time.h"
#include "flowctl/eager_window.h"
#include "srq/receive_pool.h"
#include "srq/rnr_timer.h"
#include "srq/shrink_policy.h"
#include "srq/window_controller.h"
#include "transport/core/config.h"
#include "transport/core/outbox.h"

namespace weir {

class Receiver {
 public:
  using Share = EagerWindow::Share;

  // The listener may call `top_up` and the like inside both calls.
  class Listener {
   public:
    // W moved, so peers may be due for more credits.
    virtual void on_shares_changed(Outbox& out) = 0;
    // W shrinks, and peers may hold more than their share: asks for their `excess` back.
    virtual void on_shares_exceeded(Outbox& out) = 0;

   protected:
    ~Listener() = default;
  };

  // All three outlive this object.
  Receiver(const CoreConfig& config, Counters& counters, Listener& listener);

  // Asks for the first buffers.
  void start(Outbox& out) { window_changed(out); }

  // So many peers may come: W may be larger for them, as far as allowed.
  void expect_peers(std::uint32_t count);

  // Another W_max from here on. W falls to it as far as buffers come in slabs, but not below what
  // the peers that are there need at least.
  void limit(const WindowController::Config& config, Outbox& out);
  // No W_max can be larger.
  std::uint32_t window_depth() const { return window_.depth(); }

  // The shared receive queue is about to be made: returns how many receives it must hold.
  std::uint32_t settle_queue() {
    window_.settle_room();
    return window_.room();
  }

  // ---- buffers ----

  // A receive completed into the buffer. False, and nothing changes, if it was not posted.
  bool arrive(BufferId buffer);
  const std::byte* data(BufferId buffer) const { return pool_.data(buffer); }
  // The layer above is done with the buffer.
  void release(BufferId buffer);
  // The same for a buffer that the layer above never saw.
  [[gnu::noinline]] void put_back(BufferId buffer);

  // Posts released buffers in one go, once it is worth it. Call before credits leave: if more
  // buffers than the slack are free, credits have no posted buffers behind them.
  void post(Outbox& out) {
    if (has_free_to_post()) post_free(out);
  }
  // Gives back the memory of slabs that nothing uses any more.
  void drop_slabs(Outbox& out);

  // Released buffers that may stay unposted.
  std::uint32_t slack() const { return eager_.slack(); }
  // There is something to post, or to drop.
  bool wants_pump() const { return has_free_to_post() || pool_.can_drop(); }

  // ---- the shares of peers ----

  // Makes room in the window for a peer. Its first credits may lack buffers until the engine has
  // answered with a slab, which happens before the peer can have sent anything.
  void admit(Share& share, Outbox& out);
  // The peer is no longer connected.
  void leave(Share& share);
  // The credits of a greeting that was lost or refused come back.
  void take_back(Share& share);

  // Credits for the greeting of a peer: its share, or the least.
  std::uint32_t first_credits(Share& share);
  // Credits for the next frame to the peer; they count as out from here on.
  std::uint32_t top_up(Share& share);
  // A frame of messages goes to the peer.
  static void note_went(Share& share) { EagerWindow::note_went(share); }
  // The peer has spent so much of its share that it needs credits now, in a frame of their own if
  // no other goes.
  bool is_low(const Share& share) const { return eager_.low(share); }
  // Whether the credits that the peer can get are worth a frame of their own: a quarter of its
  // share, or any if it has none.
  bool is_worth_a_frame(const Share& share) const;
  // Others hold so much of what the peer's share could be that it gets less than half of that.
  bool is_short(const Share& share) const { return eager_.short_of(share); }
  // What the peer holds beyond its share, because it is idle or W shrank; and what it may keep.
  std::uint32_t excess(const Share& share) const { return eager_.excess(share); }
  std::uint32_t target(const Share& share) const { return eager_.target(share); }
  bool is_active(const Share& share) const { return eager_.is_active(share); }
  std::uint64_t turns() const { return eager_.turns(); }

  // The peer spent a credit. False if it had none.
  bool spend(Share& share);
  // The peer gives credits back unused. False if it never had so many.
  [[gnu::noinline]] bool give_back(Share& share, std::uint32_t credits);
  // A peer has messages waiting for credits.
  void note_starved() { starved_peer_seen_ = true; }
  // A frame left that only carried credits.
  void count_credit_frame() { ++credit_frames_; }

  // ---- the window ----

  // The application found nothing to receive: it is not the bottleneck. If a peer waits for credits
  // nevertheless, W is too small.
  void on_idle(Outbox& out);
  // Checks whether credit frames were too many since the last look: then the shares are too small.
  void look_at_shares(Outbox& out);
  void on_srq_limit(Outbox& out);
  // Whether the adapter has no receive, so that senders get RNR NAKs; exact once all completions
  // are seen. If so, call `note_empty`.
  bool is_empty() const { return pool_.posted() == 0; }
  void note_empty(Time since) { empty_since_ = std::min({empty_since_, low_since_, since}); }
  // The limit event came at `since`. If receives are still few, the queue may become empty unseen.
  void note_low(Time since) {
    if (below_limit()) low_since_ = since;
  }
  // Whether to call `on_reposted` once receives are posted again.
  bool was_low() const { return low_since_ != Time::never() || empty_since_ != Time::never(); }
  [[gnu::cold, gnu::noinline]] void on_reposted(Time now, Outbox& out);
  // Looks, with all completions seen, for a limit event that should have come but was lost.
  void raise_lost_limit(Outbox& out);
  void on_slab(std::uint64_t address, std::uint32_t lkey, std::uint32_t count, Outbox& out);
  void on_slab_failed(Outbox& out);

  // When to look whether W may shrink; never, if there is nothing to get back.
  Time next_look() const { return may_shrink() ? next_look_ : Time::never(); }
  void on_timer(const Now& now, Outbox& out) {
    if (now >= next_look()) look(now, out);
  }

  // ---- looking in ----

  std::uint32_t window_max() const { return window_.max(); }
  // False: even W_max is less than the least credits of all peers.
  bool covers_all_peers() const { return eager_.least_window() <= window_.max(); }
  // Whether buffers add up, and `credits_out` credits are granted.
  bool conserved(std::uint32_t credits_out) const {
    return pool_.conserved() && credits_out == eager_.out();
  }

 private:
  bool has_free_to_post() const { return pool_.free() >= std::max(slack(), 1u); }
  void post_free(Outbox& out);
  void post_all(Outbox& out);
  void book_posted() { counters_.receives_posted = pool_.posted(); }
  void book_held();
  void book_credits() { counters_.credits_out = eager_.out(); }
  [[gnu::noinline]] void window_changed(Outbox& out);
  std::uint32_t most_now() const;
  void fall(Outbox& out);
  void book_window();
  void ask_for_buffers(Outbox& out);
  void cover_credits();
  std::uint32_t limit() const;
  bool below_limit() const;
  bool grow_at_limit();
  bool grow_without_event();
  void arm_limit(Outbox& out);
  void demanded(Outbox& out);
  bool may_shrink() const;
  void look(const Now& now, Outbox& out);
  void count_credit_frames_anew();

  const CoreConfig& config_;
  Counters& counters_;
  Listener& listener_;
  WindowController window_;
  ShrinkPolicy shrink_;
  RnrAdvisor rnr_;
  EagerWindow eager_;
  ReceivePool pool_;
  std::uint32_t expected_ = 0;              // peers
  std::uint32_t slabs_asked_ = 0;           // buffers asked for and not answered yet
  std::uint64_t frames_at_demand_ = 0;      // frames received when a demand was last looked at
  std::uint64_t sent_at_demand_ = 0;        // frames sent then
  std::uint64_t frames_at_share_look_ = 0;  // the same, when the count of credit frames restarted
  std::uint64_t credit_frames_ = 0;         // sent since then
  bool starved_peer_seen_ = false;
  bool limit_armed_ = false;
  Time low_since_ = Time::never();    // since then receives are fewer than the limit
  Time empty_since_ = Time::never();  // since then there is none
  std::uint64_t taken_ = 0;           // buffers that the layer above released
  std::uint64_t taken_at_growth_ = 0;
  Time next_look_{};
};

}  // namespace weir
