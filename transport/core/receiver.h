// The receiving side of a process: the buffers behind its shared receive queue, the window W that
// follows the demand, and the credits that let peers use it.
//
// Whatever the peers do, credits out + buffers held <= W - slack - reserve
// (flowctl/eager_window.h), and a buffer is posted before a credit for it leaves. W grows when the
// SRQ limit is reached, when a peer that is not too slow for us lacks credits, and when credits
// need too many frames of their own; it shrinks when little of it was used for long.
//
// Knows no peers, only their shares. It sends nothing: what frames have to go is for the listener.
//
// Pure; the caller serialises. Only `on_slab` allocates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flowctl/eager_window.h"
#include "srq/receive_pool.h"
#include "srq/rnr_timer.h"
#include "srq/shrink_policy.h"
#include "srq/window_controller.h"
#include "transport/base/counters.h"
#include "transport/base/ids.h"
#include "transport/base/now.h"
#include "transport/base/time.h"
#include "transport/core/config.h"
#include "transport/core/outbox.h"

namespace weir {

class Receiver {
 public:
  using Share = EagerWindow::Share;

  // Both may ask for `top_up` and the like at once.
  class Listener {
   public:
    // W moved, so peers may be due for more credits.
    virtual void on_shares_changed(Outbox& out) = 0;
    // W shrinks, and peers may hold more than their share: `excess` is to be had back.
    virtual void on_shares_exceeded(Outbox& out) = 0;

   protected:
    ~Listener() = default;
  };

  // All three outlive this.
  Receiver(const CoreConfig& config, Counters& counters, Listener& listener);

  // Asks for the first buffers.
  void start(Outbox& out) { window_changed(out); }

  // So many peers may come: W_max is raised as far as it may be, and a peer gets no more than what
  // all of them could have, so that early ones cannot take it all.
  void expect_peers(std::uint32_t count);

  // The shared receive queue is to be made: it has to have room for so many.
  std::uint32_t settle_queue() {
    window_.settle_most();
    return window_.most();
  }

  // ---- buffers ----

  // A receive completed into the buffer. False, and nothing changes, if it was not posted.
  bool arrive(BufferId buffer);
  const std::byte* data(BufferId buffer) const { return pool_.data(buffer); }
  // The layer above is done with it.
  void release(BufferId buffer);
  // The same for one that the layer above never saw.
  void put_back(BufferId buffer);

  // Posts what was released, in one go, once it is worth it. To be called before credits leave:
  // more free buffers than the slack would have nothing behind them.
  void post(Outbox& out);
  // Gives back the memory of slabs that nothing uses any more.
  void drop_slabs(Outbox& out);

  // Released buffers that may stay unposted.
  std::uint32_t slack() const { return eager_.slack(); }
  // There is more to post, or to drop, than may wait.
  bool wants_pump() const { return pool_.free() > slack() || pool_.can_drop(); }

  // ---- the shares of peers ----

  // Makes room in the window for a peer. Its first credits may be covered only once the engine has
  // answered with a slab, which it does before the peer can have sent anything.
  void admit(Share& share, Outbox& out);
  // The peer is connected no more.
  void leave(Share& share);
  // Credits of a greeting that was lost or refused come back.
  void take_back(Share& share);

  // Credits for the greeting of a peer: its share, or its least.
  std::uint32_t first_credits(Share& share);
  // Credits for the next frame to the peer; they count as out from here on.
  std::uint32_t top_up(Share& share);
  // Half of its share is spent.
  bool is_low(const Share& share) const { return eager_.low(share); }
  // Whether there are credits for the peer: within the window, or, when too much of that is given
  // away for good, its least.
  bool may_top_up(const Share& share) const;
  // What it holds beyond its share, because W shrank; and what it may keep.
  std::uint32_t excess(const Share& share) const { return eager_.excess(share); }
  std::uint32_t target() const { return eager_.target(); }

  // The peer spent a credit. False if it had none.
  bool spend(Share& share);
  // The peer gives credits back unused. False if it never had so many.
  bool give_back(Share& share, std::uint32_t credits);
  // A peer has messages waiting for credits.
  void note_starved() { starved_peer_seen_ = true; }
  // A frame left that had no other purpose than its credits.
  void count_credit_frame() { ++credit_frames_; }

  // ---- the window ----

  // The application found nothing to receive: it is not the bottleneck. If a peer waits for credits
  // all the same, W is too small.
  void on_idle(Outbox& out);
  // Credit frames were too many since the last look: the shares are too small.
  void look_at_shares(Outbox& out);
  void on_srq_limit(Outbox& out);
  // After a limit event, receives were posted again so much later.
  void on_reposted(Duration event_to_repost, Outbox& out);
  // A look, with all completions seen, for a limit event that should have come and was lost.
  void raise_lost_limit(Outbox& out);
  void on_slab(std::uint64_t address, std::uint32_t lkey, std::uint32_t count, Outbox& out);
  void on_slab_failed(Outbox& out);

  // When to look whether W may shrink; never, if there is nothing to be had back.
  Time next_look() const { return may_shrink() ? next_look_ : Time::never(); }
  void on_timer(const Now& now, Outbox& out) {
    if (now >= next_look()) look(now, out);
  }

  // ---- looking in ----

  std::uint32_t window_max() const { return window_.max(); }
  // False: even at W_max the window has less than the least credits of all peers.
  bool covers_all_peers() const { return eager_.least_window() <= window_.max(); }
  // Whether buffers add up, and so many credits are out.
  bool conserved(std::uint32_t credits_out) const {
    return pool_.conserved() && credits_out == eager_.out();
  }

 private:
  void book_buffers();
  void book_credits() { counters_.credits_out = eager_.out(); }
  [[gnu::noinline]] void window_changed(Outbox& out);
  bool below_limit() const;
  bool grow_at_limit();
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
  std::uint32_t slabs_asked_ = 0;           // buffers asked for and not answered yet
  std::uint64_t frames_at_demand_ = 0;      // frames received when a demand last grew the window
  std::uint64_t frames_at_share_look_ = 0;  // the same, when credit frames were counted anew
  std::uint64_t credit_frames_ = 0;         // sent since then
  bool starved_peer_seen_ = false;
  bool limit_armed_ = false;
  std::uint64_t taken_ = 0;  // buffers that the layer above released
  std::uint64_t taken_at_growth_ = 0;
  Time next_look_{};
};

}  // namespace weir
