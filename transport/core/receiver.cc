#include "transport/core/receiver.h"

#include <algorithm>
#include <utility>

namespace weir {
namespace {

// The shares are large enough if credit frames are rarer than this.
constexpr std::uint64_t frames_per_credit_frame = 16;

// It is a burst to this process if answers are rarer than this.
constexpr std::uint64_t frames_per_answer = 8;

// Peers that we ask to part may answer with a frame that no credit pays for.
EagerWindow::Config shares_of(const CoreConfig& config) {
  EagerWindow::Config shares = config.credits;
  shares.control_reserve += config.connections_max > 0 ? 1 : 0;
  return shares;
}

}  // namespace

Receiver::Receiver(const CoreConfig& config, Counters& counters, Listener& listener)
    : config_(config),
      counters_(counters),
      listener_(listener),
      window_(config.window),
      shrink_(config.shrink_after),
      rnr_(config.rnr_code),
      eager_(shares_of(config)),
      pool_(config.buffer_bytes) {
  eager_.set_window(window_.window());
  counters_.window = counters_.window_peak = window_.window();
  counters_.rnr_timer_ns = static_cast<std::uint64_t>(rnr_timer_duration(rnr_.code()).ns);
}

void Receiver::expect_peers(std::uint32_t count) {
  expected_ = std::max(expected_, count);
  window_.expect(eager_.least_window(count));
  eager_.expect(count, window_.max());
}

void Receiver::limit(const WindowController::Config& config, Outbox& out) {
  window_.limit(config);
  expect_peers(expected_);
  if (pool_.total() == 0) return window_.shrink_to(most_now());  // not started
  fall(out);
  arm_limit(out);
}

std::uint32_t Receiver::most_now() const {
  const std::uint32_t least = eager_.least_window();
  return std::max(window_.max_by_demand(least), least);
}

// Lowers W to W_max. No slab is on its way, or this is called again when it comes.
void Receiver::fall(Outbox& out) {
  const std::uint32_t most = most_now();
  if (slabs_asked_ > 0 || std::max(window_.window(), pool_.active()) <= most) return;
  pool_.retire(std::max(eager_.least_window(), 1u), most);
  window_.shrink_to(std::min(most, pool_.active()));
  counters_.window_shrinks += counters_.window > window_.window() ? 1 : 0;
  window_changed(out);
  listener_.on_shares_exceeded(out);
  drop_slabs(out);
}

// ---- buffers ----

bool Receiver::arrive(BufferId buffer) {
  if (!pool_.arrive(buffer)) return false;
  book_posted();
  book_held();
  counters_.receives_held_peak =
      std::max<std::uint64_t>(counters_.receives_held_peak, pool_.held());
  return true;
}

void Receiver::release(BufferId buffer) {
  ++taken_;
  put_back(buffer);
}

void Receiver::put_back(BufferId buffer) {
  const std::uint32_t withdrawn = pool_.withdrawn();
  pool_.release(buffer, [this] { return eager_.can_spare_held(); });
  if (pool_.withdrawn() != withdrawn) [[unlikely]]
    eager_.set_window(window_.window(), pool_.backed());
  book_held();
}

void Receiver::book_held() {
  eager_.set_held(pool_.held());
  counters_.receives_held = pool_.held();
}

void Receiver::post_all(Outbox& out) {
  pool_.post(pool_.free(), out.receives);
  book_posted();
}

void Receiver::post_free(Outbox& out) {
  post_all(out);
  if (!limit_armed_) arm_limit(out);
}

void Receiver::drop_slabs(Outbox& out) {
  while (slabs_asked_ == 0 && pool_.can_drop()) {
    counters_.receive_bytes -= std::uint64_t{pool_.drop_slab()} * config_.buffer_bytes;
    out.drop_slab();
  }
}

// ---- the shares of peers ----

void Receiver::admit(Share& share, Outbox& out) {
  // It joins first, so that nobody else is offered the room that W gets for it.
  const std::uint32_t floor = eager_.floor(share);
  eager_.join(share);
  if (window_.raise_to(floor)) window_changed(out);
}

void Receiver::leave(Share& share) {
  eager_.leave(share);
  book_credits();
}

void Receiver::take_back(Share& share) {
  eager_.take_back(share);
  book_credits();
}

std::uint32_t Receiver::first_credits(Share& share) {
  const std::uint32_t covered = eager_.first(share);
  const std::uint32_t beyond = eager_.overcommit(share);
  counters_.credits_overcommitted += beyond;
  book_credits();
  return covered + beyond;
}

std::uint32_t Receiver::top_up(Share& share) {
  std::uint32_t count = eager_.top_up(share, UINT16_MAX);
  if (count == 0 && share.out == 0 && eager_.overdrawn() && share.joined) {
    count = eager_.overcommit(share);
    counters_.credits_overcommitted += count;
  }
  book_credits();
  return count;
}

bool Receiver::is_worth_a_frame(const Share& share) const {
  const std::uint32_t count = eager_.available(share);
  if (share.out == 0) return count > 0 || (share.joined && eager_.overdrawn());
  return count > 0 && count * 4 >= eager_.target(share);
}

bool Receiver::spend(Share& share) {
  const bool had = eager_.spend(share);
  book_credits();
  return had;
}

bool Receiver::give_back(Share& share, std::uint32_t credits) {
  const bool had = eager_.give_back(share, credits);
  book_credits();
  return had;
}

// ---- the window ----

// At most one step per window's worth of frames, so that the effect of the last step is seen first.
// Beyond `window_unasked` only for a burst to this process. Where all send to all, peers wait for
// their turn on a CPU rather than for credits, and more of them gain nothing.
void Receiver::on_idle(Outbox& out) {
  if (!starved_peer_seen_ || pool_.held() > eager_.slack()) return;
  starved_peer_seen_ = false;
  const std::uint64_t received = counters_.frames_received - frames_at_demand_;
  if (received < window_.window() / 2) return;
  const std::uint64_t sent = counters_.frames_sent - sent_at_demand_;
  frames_at_demand_ = counters_.frames_received;
  sent_at_demand_ = counters_.frames_sent;
  if (window_.window() >= config_.window_unasked && sent * frames_per_answer > received) return;
  if (window_.grow(eager_.least_window())) demanded(out);
}

// A credit frame costs both sides a small message. If a window's worth of traffic needs many, the
// shares are too small: W doubles. Traffic slower than the looks at the window does not count,
// because the memory would soon be given back. W stays within `window_unattended`, because a slow
// receiver gives credits in small parts, too.
void Receiver::look_at_shares(Outbox& out) {
  const std::uint64_t frames = counters_.frames_received - frames_at_share_look_;
  if (frames < window_.window()) return;
  const bool small = credit_frames_ * frames_per_credit_frame > frames && eager_.may_widen();
  count_credit_frames_anew();
  if (!small || window_.window() * 2 > config_.window_unattended) return;
  if (window_.grow(eager_.least_window())) demanded(out);
}

void Receiver::count_credit_frames_anew() {
  frames_at_share_look_ = counters_.frames_received;
  credit_frames_ = 0;
}

void Receiver::demanded(Outbox& out) {
  shrink_.grew();
  ++counters_.window_demands;
  window_changed(out);
}

void Receiver::on_srq_limit(Outbox& out) {
  ++counters_.srq_limit_events;
  limit_armed_ = false;
  // The event may be outdated: W has grown for another reason since, or receives were posted.
  if (!below_limit() || !grow_at_limit()) return arm_limit(out);
  window_changed(out);
}

// Only the time for which the queue was empty counts: with receives posted, no sender gets an RNR
// NAK.
void Receiver::on_reposted(Time now, Outbox& out) {
  low_since_ = Time::never();
  const Time since = std::exchange(empty_since_, Time::never());
  if (since == Time::never()) return;
  const Duration empty = now - since;
  counters_.repost_ns_peak =
      std::max(counters_.repost_ns_peak, static_cast<std::uint64_t>(empty.ns));
  if (!config_.rnr_auto || !rnr_.add(empty, eager_.peers())) return;
  counters_.rnr_timer_ns = static_cast<std::uint64_t>(rnr_timer_duration(rnr_.code()).ns);
  ++counters_.rnr_timer_changes;
  out.advertise_rnr_timer(rnr_.code());
}

void Receiver::raise_lost_limit(Outbox& out) {
  if (limit_armed_ && grow_without_event()) window_changed(out);
}

// Grows W as the limit event would.
bool Receiver::grow_without_event() {
  if (!below_limit() || !grow_at_limit()) return false;
  ++counters_.srq_limit_self_raised;
  return true;
}

// Doubles W because the limit was reached. Beyond `window_unattended`, only if the layer above took
// half a window's worth since the last time: frames that pile up for an absent application are not
// worth more memory, and the peers keep them until it is back. Beyond `window_unasked`, never: at
// the limit many receives are still posted, and a peer that needs more runs out of credits.
bool Receiver::grow_at_limit() {
  const std::uint32_t window = window_.window();
  if (window >= config_.window_unasked) return false;
  if (window >= config_.window_unattended && taken_ - taken_at_growth_ < window / 2) return false;
  if (!window_.grow(eager_.least_window())) return false;
  taken_at_growth_ = taken_;
  shrink_.grew();
  return true;
}

bool Receiver::below_limit() const {
  return pool_.total() >= window_.window() && pool_.posted() < limit();
}

// While the event may grow W, the limit is half of W. After that, the event only gets receives
// posted again. Then the limit is an eighth of W, which a process that polls does not reach.
std::uint32_t Receiver::limit() const {
  const std::uint32_t most =
      std::min(window_.max_by_demand(eager_.least_window()), config_.window_unasked);
  return window_.window() < most ? window_.limit() : eager_.slack();
}

// Arms the limit event, unless the limit is already passed: then the event would come at once or
// never (adapters differ). Receives that are posted later arm it.
void Receiver::arm_limit(Outbox& out) {
  limit_armed_ = limit() > 0 && !below_limit();
  if (limit_armed_) out.arm_srq(std::min(limit(), pool_.total()));
}

// W is larger than the peers need at least, or credits and slabs are still to come back.
bool Receiver::may_shrink() const {
  return pool_.retiring() ||
         (shrink_.enabled() &&
          window_.window() > std::max(config_.window.initial, eager_.least_window()));
}

// Called from time to time: halves a window that is hardly used. Its youngest slabs retire; they go
// once traffic has used their buffers up and the peers have returned their credits for them.
void Receiver::look(const Now& now, Outbox& out) {
  next_look_ = now + shrink_.interval();
  count_credit_frames_anew();
  const std::uint32_t window = window_.window();
  const std::uint32_t keep = std::max({window / 2, config_.window.initial, eager_.least_window()});
  // Not while a requested slab is on its way: somebody needs it.
  if (slabs_asked_ == 0 && shrink_.enabled() && shrink_.look(now, window, pool_.peak_used()) &&
      pool_.retire(keep)) {
    shrink_.shrank(now);
    window_.shrink_to(pool_.active());
    ++counters_.window_shrinks;
    window_changed(out);
  }
  pool_.reset_peak_used();
  if (pool_.retiring()) listener_.on_shares_exceeded(out);
  drop_slabs(out);
}

void Receiver::on_slab(std::uint64_t address, std::uint32_t lkey, std::uint32_t count,
                       Outbox& out) {
  slabs_asked_ -= std::min(slabs_asked_, count);
  pool_.add_slab(address, lkey, count);
  counters_.receive_bytes += std::uint64_t{count} * config_.buffer_bytes;
  counters_.receive_bytes_peak = std::max(counters_.receive_bytes_peak, counters_.receive_bytes);
  window_changed(out);
  fall(out);
}

void Receiver::on_slab_failed(Outbox& out) {
  slabs_asked_ = 0;
  ++counters_.slab_failures;
  if (pool_.total() == 0) return;  // no buffers at all; asking again would not help
  window_.cap(pool_.total());
  eager_.expect(0, window_.max());
  window_changed(out);
}

// W moved, or buffers came. The limit event is a one-shot hint: if armed below the limit, some
// devices stay silent for ever. So this looks at the limit before it is armed.
void Receiver::window_changed(Outbox& out) {
  do {
    book_window();
    ask_for_buffers(out);
    cover_credits();
    post_all(out);
  } while (grow_without_event());
  arm_limit(out);
  listener_.on_shares_changed(out);
}

void Receiver::book_window() {
  const std::uint32_t window = window_.window();
  if (window > counters_.window) ++counters_.window_grows;
  counters_.window = window;
  counters_.window_peak = std::max<std::uint64_t>(counters_.window_peak, window);
}

// Takes slabs back from retirement, and asks for what W still lacks as one new slab. Waits for it
// before it asks for the next one.
void Receiver::ask_for_buffers(Outbox& out) {
  const std::uint32_t window = window_.window();
  pool_.restore(window, window_.room());
  const std::uint32_t total = pool_.total();
  if (total >= window || slabs_asked_ > 0) return;
  // Peers that come one by one raise W a little each time: one slab does for several of them. No
  // slab is larger than all before it, so that one can go when W halves, however W grew.
  const std::uint32_t least = std::min(total / 8, window_.room() - total);
  const std::uint32_t wanted = std::max(window - total, least);
  slabs_asked_ = total == 0 ? wanted : std::min(wanted, total);
  out.want_slab(slabs_asked_);
}

// Credits only for buffers that exist, or will exist before the next frame leaves.
void Receiver::cover_credits() {
  const std::uint32_t backed = pool_.backed() + slabs_asked_;
  eager_.set_window(std::min(window_.window(), backed), backed);
}

}  // namespace weir
