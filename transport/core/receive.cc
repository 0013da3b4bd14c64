// What arrives: completions, credits, and the receive window that follows the demand.

#include <algorithm>

#include "transport/core/core.h"

namespace weir {
namespace {

// The shares are large enough when credit frames are rarer than this.
constexpr std::uint64_t frames_per_credit_frame = 16;

}  // namespace

void Core::on_completion(Time now, const Completion& completion, Outbox& out) {
  if (completion.opcode == Opcode::receive) {
    on_receive_completion(now, completion, out);
  } else {
    on_send_completion(now, completion, out);
  }
}

void Core::on_send_completion(Time now, const Completion& completion, Outbox& out) {
  Lane* lane = open_lane(completion.lane);
  if (lane == nullptr) return;  // of a lane dropped meanwhile
  Peer& peer = at(lane->peer);
  if (completion.status != CompletionStatus::success) {
    if (peer.left) {
      finish_close(now, peer, out);  // it said goodbye; what was still under way does not matter
    } else {
      fail(now, peer, FailReason::send_failed, completion.status, out);
    }
    return;
  }
  lane->queue.retire(
      completion.id, [&](SendSlot* slot) { landed(slot, true, out); },
      [&](const RdmaInFlight& chunk) { on_chunk(now, chunk); });
  if (peer.lane != completion.lane && peer.bulk.lane != completion.lane) return;
  if (peer.bulk.to_tell) [[unlikely]]
    tell_bulk_end(peer, out);
  if (has_transfers()) [[unlikely]]
    let_chunks_go(now, peer, out);
  if (peer.state == PeerState::ready) {
    if (!peer.pending.empty()) post_pending(now, peer, peer.in_held_list, out);
  } else if (peer.state == PeerState::closing) {
    try_finish_close(now, peer, out);
  }
}

void Core::on_receive_completion(Time now, const Completion& completion, Outbox& out) {
  const BufferId buffer{static_cast<std::uint32_t>(completion.id)};
  if (!pool_.arrive(buffer)) return;
  book_buffers();

  Lane* lane = open_lane(completion.lane);
  if (lane == nullptr || at(lane->peer).state == PeerState::failed) {
    put_back(buffer);  // sent by a lane that we dropped
    return;
  }
  Peer& peer = at(lane->peer);
  if (completion.status != CompletionStatus::success) {
    put_back(buffer);
    fail(now, peer, FailReason::receive_failed, completion.status, out);
    return;
  }
  const std::byte* frame = pool_.data(buffer);
  const std::size_t size = completion.length_bytes;
  const std::uint32_t due = lane->rx_sequence;
  const FrameFault fault = take_frame(peer, *lane, frame, size);
  if (fault != FrameFault::none) [[unlikely]] {
    const BadFrame bad = describe(fault, due, frame, size);
    put_back(buffer);
    if (fault != FrameFault::twice) return fail(now, peer, bad, out);
    ++counters_.frames_twice;
    return;
  }
  // The first frame can overtake the confirmation of the connection.
  if (peer.state == PeerState::accepting) become_ready(now, peer, out);

  const wire::FrameKind kind = wire::get_frame_header(frame).kind;
  if (kind == wire::FrameKind::messages) {
    ++counters_.frames_received;
    deliver(lane->peer, buffer, frame + wire::frame_header_bytes, size - wire::frame_header_bytes,
            out);
  } else if (kind == wire::FrameKind::relayed || kind == wire::FrameKind::repeated) {
    const BadFrame bad = describe(FrameFault::relayed, due, frame, size);  // it may be put back
    if (!take_numbered(lane->peer, buffer, size, out)) return fail(now, peer, bad, out);
  } else {
    ++counters_.control_received;
    const wire::FrameHeader header = wire::get_frame_header(frame);
    const bool of_lane = header.kind == wire::FrameKind::lane_end;
    const wire::LaneEnd end =
        of_lane ? wire::get_lane_end(frame + wire::frame_header_bytes) : wire::LaneEnd{};
    const BadFrame bad = describe(FrameFault::lane_end, due, frame, size);
    put_back(buffer);
    if (header.kind == wire::FrameKind::recall) return_credits(peer, header.credits, out);
    if (of_lane && !take_bulk_end(now, peer, end, out)) return fail(now, peer, bad, out);
  }
  if (peer.bulk.to_tell) [[unlikely]]
    tell_bulk_end(peer, out);  // credits for that may have come
  if (peer.state == PeerState::ready) {
    if (!peer.pending.empty()) post_pending(now, peer, peer.in_held_list, out);
  } else if (peer.state == PeerState::closing) {
    try_finish_close(now, peer, out);
  }
}

inline void Core::deliver(PeerId from, BufferId buffer, const std::byte* messages, std::size_t size,
                          Outbox& out) {
  wire::walk_messages(
      messages, size,
      [&](const std::byte* payload, std::uint32_t length_bytes, std::uint8_t tag, bool last) {
        out.deliveries.push_back({from, buffer, payload, length_bytes, tag, last});
        ++counters_.messages_received;
        counters_.bytes_received += length_bytes;
      });
}

// Messages that a relay sends, or that their origin had given to one before. False if no correct
// peer sends that.
bool Core::take_numbered(PeerId by, BufferId buffer, std::size_t size, Outbox& out) {
  const std::byte* const frame = pool_.data(buffer);
  const std::size_t before = out.deliveries.size();
  bool good = true;
  ++counters_.frames_received;
  if (wire::get_frame_header(frame).kind == wire::FrameKind::repeated) {
    good = take_section(by, buffer, frame + wire::frame_header_bytes,
                        size - wire::frame_header_bytes, out);
  } else {
    const std::uint32_t job = at(by).name.job;
    wire::for_each_section(
        frame, size, [&](std::uint32_t rank, const std::byte* messages, std::size_t bytes) {
          if (!good) return;
          // A relay is for those of its job, and for who is connected to us or was.
          const PeerId from = find({job, rank});
          good = job == config_.self.job && from != PeerId::none && rank != config_.self.rank &&
                 take_section(from, buffer, messages, bytes, out);
        });
  }
  // The buffer is released with the last of its messages.
  for (std::size_t i = before; i < out.deliveries.size(); ++i) {
    out.deliveries[i].last = i + 1 == out.deliveries.size();
  }
  if (out.deliveries.size() == before) put_back(buffer);
  return good;
}

// By its number each frame arrives once: a relay that stood still may send what its origin has sent
// meanwhile. None can be missing, for its origin gives or sends the next only when this one
// arrived.
bool Core::take_section(PeerId from, BufferId buffer, const std::byte* messages, std::size_t size,
                        Outbox& out) {
  Peer& origin = at(from);
  const std::uint32_t ahead =
      (wire::get_relay_sequence(messages) - origin.relay_expected) & wire::relay_sequence_mask;
  if (origin.state == PeerState::failed) return true;  // nothing comes from it any more
  if (ahead > wire::relay_sequence_mask / 2) {
    ++counters_.proxy_duplicates;
    return true;
  }
  if (ahead != 0) return false;
  origin.relay_expected = (origin.relay_expected + 1) & wire::relay_sequence_mask;
  const bool connected = origin.state == PeerState::ready || is_waiting(origin.state) ||
                         origin.state == PeerState::closing;
  if (connected && !origin.left) deliver(from, buffer, messages, size, out);
  return true;
}

// Looks at all of a frame before anything of it is used, and books what its header says.
FrameFault Core::take_frame(Peer& peer, Lane& lane, const std::byte* frame, std::size_t size) {
  if (&lane != &at(peer.lane)) return FrameFault::lane;
  if (size > config_.buffer_bytes) return FrameFault::length;
  // Soft-RoCE, when it repeats a SEND of several packets, may number one anew that has arrived: it
  // is delivered empty, or in full as one of those last received. PROTOCOL.md §2.
  if (size == 0) return FrameFault::twice;
  if (!wire::check_frame(frame, size)) return FrameFault::layout;
  return take_header(peer, lane, wire::get_frame_header(frame));
}

FrameFault Core::take_header(Peer& peer, Lane& lane, const wire::FrameHeader& header) {
  if (header.sequence != lane.rx_sequence) [[unlikely]] {
    const std::uint32_t behind = lane.rx_sequence - header.sequence;
    return behind <= config_.queue.depth ? FrameFault::twice : FrameFault::sequence;
  }
  if (peer.left) return FrameFault::after_goodbye;
  ++lane.rx_sequence;
  using Kind = wire::FrameKind;
  if (header.kind == Kind::messages || header.kind == Kind::lane_end ||
      header.kind == Kind::relayed || header.kind == Kind::repeated) {
    if (!eager_.spend(peer.share)) return FrameFault::eager_credits;
    note_due(peer);
  } else if (header.kind == Kind::goodbye) {
    peer.left = true;
  } else if (++peer.control_owed > config_.credits.control_reserve) {
    return FrameFault::control_credits;
  }
  if (header.kind == Kind::returned) {
    if (!eager_.give_back(peer.share, header.credits)) return FrameFault::returned_credits;
  } else if (header.kind != Kind::recall) {
    peer.credits += header.credits;
  }
  const std::uint32_t control = std::uint32_t{peer.control_credits} + header.control_credits;
  peer.control_credits = static_cast<std::uint8_t>(control);
  starved_peer_seen_ = starved_peer_seen_ || header.starved;
  counters_.credits_out = eager_.out();
  if (peer.credits > (1u << 24)) return FrameFault::granted_credits;  // no receive queue is so deep
  if (control > config_.credits.control_reserve) return FrameFault::control_credits;
  return FrameFault::none;
}

void Core::release(BufferId buffer) {
  ++taken_;
  put_back(buffer);
}

void Core::put_back(BufferId buffer) {
  const std::uint32_t backed = pool_.backed();
  pool_.release(buffer, eager_.can_spare_held());
  if (pool_.backed() != backed) [[unlikely]]
    eager_.set_window(window_.window(), pool_.backed());
  book_buffers();
}

void Core::book_buffers() {
  eager_.set_held(pool_.held());
  counters_.receives_posted = pool_.posted();
  counters_.receives_held = pool_.held();
  counters_.receives_held_peak =
      std::max<std::uint64_t>(counters_.receives_held_peak, pool_.held());
}

// Posts what was released, in one go, once it is worth it. Credits, eager or control, leave only
// after this: more free buffers than the slack would have nothing behind them.
void Core::post_receives(Outbox& out) {
  if (pool_.free() == 0 || pool_.free() < eager_.slack()) return;
  pool_.post(pool_.free(), out.receives);
  book_buffers();
  if (!limit_armed_) arm_limit(out);
}

// Keeps in mind a peer that has spent half of its share.
void Core::note_due(Peer& peer) {
  if (peer.in_due_list || !is_due(peer)) return;
  peer.in_due_list = true;
  due_.push_back(at(peer.lane).peer);
}

// Credit frames to peers that have spent half of their share and got nothing back since; and lane
// ends that had to wait, which carry credits, too.
void Core::give_back_credits(Outbox& out) {
  std::size_t kept = 0;
  for (const PeerId id : due_) {
    Peer& peer = at(id);
    tell_bulk_end(peer, out);
    const bool low = peer.state == PeerState::ready && eager_.low(peer.share);
    const bool sent =
        low && may_top_up(peer) && send_control(peer, wire::FrameKind::credits, 0, out);
    if (sent) ++credit_frames_;
    peer.in_due_list = low != sent || (peer.state == PeerState::ready && peer.bulk.to_tell);
    if (peer.in_due_list) due_[kept++] = id;  // later
  }
  due_.resize(kept);
}

// A credit frame costs both sides a small message. Where a window's worth of traffic needs many,
// the shares are too small: W doubles. Not for traffic that takes longer than from one look at the
// window to the next: the memory would soon be given back. Nor beyond `window_unattended`, for a
// slow receiver gives credits in small parts, too.
void Core::look_at_shares(Outbox& out) {
  const std::uint64_t frames = counters_.frames_received - frames_at_share_look_;
  if (frames < window_.window()) return;
  const bool small = credit_frames_ * frames_per_credit_frame > frames && eager_.may_widen();
  count_credit_frames_anew();
  if (!small || window_.window() * 2 > config_.window_unattended) return;
  if (window_.grow()) demanded(out);
}

void Core::count_credit_frames_anew() {
  frames_at_share_look_ = counters_.frames_received;
  credit_frames_ = 0;
}

// Whether there are credits for the peer: within the window, or, when too much of that is given
// away for good, its least.
bool Core::may_top_up(const Peer& peer) const {
  if (eager_.available(peer.share) > 0) return true;
  return peer.share.joined && peer.share.out == 0 && eager_.overdrawn();
}

std::uint32_t Core::top_up(Peer& peer, std::uint32_t most) {
  std::uint32_t count = eager_.top_up(peer.share, most);
  if (count == 0 && peer.share.out == 0 && may_top_up(peer)) {
    count = eager_.overcommit(peer.share);
    counters_.credits_overcommitted += count;
  }
  counters_.credits_out = eager_.out();
  return count;
}

void Core::on_idle(Outbox& out) {
  if (!starved_peer_seen_ || pool_.held() > eager_.slack()) return;
  starved_peer_seen_ = false;
  // A peer waits for credits while we have nothing left to do: the window is too small, not we
  // too slow. At most one step for each window's worth of frames, to see what the last one did.
  if (counters_.frames_received - frames_at_demand_ < window_.window() / 2) return;
  frames_at_demand_ = counters_.frames_received;
  if (window_.grow()) demanded(out);
}

void Core::demanded(Outbox& out) {
  shrink_.grew();
  ++counters_.window_demands;
  window_changed(out);
}

void Core::on_srq_limit(Outbox& out) {
  ++counters_.srq_limit_events;
  limit_armed_ = false;
  // The event may be old news: from before W grew for another reason, or receives were posted.
  if (!below_limit() || !grow_at_limit()) return arm_limit(out);
  window_changed(out);
}

void Core::on_reposted(Duration event_to_repost, Outbox& out) {
  counters_.repost_ns_peak =
      std::max(counters_.repost_ns_peak, static_cast<std::uint64_t>(event_to_repost.ns));
  if (!config_.rnr_auto || !rnr_.add(event_to_repost)) return;
  counters_.rnr_timer_ns = static_cast<std::uint64_t>(rnr_timer_duration(rnr_.code()).ns);
  ++counters_.rnr_timer_changes;
  out.advertise_rnr_timer(rnr_.code());
}

void Core::raise_lost_limit(Outbox& out) {
  if (!limit_armed_ || !below_limit() || !grow_at_limit()) return;
  ++counters_.srq_limit_self_raised;
  window_changed(out);
}

// Doubles W because the limit was reached. Beyond `window_unattended`, only when the layer above
// took half a window's worth since the last time: what piles up in front of an application that is
// elsewhere is not worth more memory. The peers keep their frames until it is back. Beyond
// `window_unasked` never: the limit is far from running out, so who needs more runs out of credits.
bool Core::grow_at_limit() {
  const std::uint32_t window = window_.window();
  if (window >= config_.window_unasked) return false;
  if (window >= config_.window_unattended && taken_ - taken_at_growth_ < window / 2) return false;
  if (!window_.grow()) return false;
  taken_at_growth_ = taken_;
  shrink_.grew();
  return true;
}

bool Core::below_limit() const {
  return pool_.total() >= window_.window() && pool_.posted() < window_.limit();
}

// Arms the limit event, unless it could change nothing (W is as large as it makes it), or would
// come at once or never (adapters differ) because the limit is passed already.
void Core::arm_limit(Outbox& out) {
  const std::uint32_t most = std::min(window_.max(), config_.window_unasked);
  limit_armed_ = window_.window() < most && !below_limit();
  if (limit_armed_) out.arm_srq(std::min(window_.limit(), pool_.total()));
}

// There is more than the peers need at least, or credits and slabs to be had back.
bool Core::may_shrink() const {
  if (!shrink_.enabled()) return false;
  return pool_.retiring() ||
         window_.window() > std::max(config_.window.initial, eager_.least_window());
}

// From time to time: halves a window that is hardly used. Its youngest slabs retire, and go once
// traffic has used their buffers up and the peers have returned their credits for them.
void Core::look_at_window(Time now, Outbox& out) {
  next_window_look_ = now + shrink_.interval();
  count_credit_frames_anew();
  const std::uint32_t window = window_.window();
  const std::uint32_t keep = std::max({window / 2, config_.window.initial, eager_.least_window()});
  // (Not while a slab is under way that somebody else needs.)
  if (slabs_asked_ == 0 && shrink_.look(now, window, pool_.peak_used()) && pool_.retire(keep)) {
    shrink_.shrank(now);
    window_.shrink_to(pool_.active());
    ++counters_.window_shrinks;
    window_changed(out);
  }
  pool_.reset_peak_used();
  if (pool_.retiring()) recall_credits(out);
  drop_slabs(out);
}

// Asks the peers for what they hold beyond their shares. One that has frames waiting keeps it, one
// that computes answers later: nothing depends on the answer but the memory.
void Core::recall_credits(Outbox& out) {
  for (std::uint32_t i = 0; i < peer_count(); ++i) {
    Peer& peer = peers_[i];
    if (peer.state != PeerState::ready || peer.left || eager_.excess(peer.share) == 0) continue;
    const std::uint32_t keep = std::min<std::uint32_t>(eager_.target(), UINT16_MAX);
    if (send_control(peer, wire::FrameKind::recall, keep, out)) ++counters_.credit_recalls;
  }
}

void Core::return_credits(Peer& peer, std::uint32_t keep, Outbox& out) {
  if (peer.state != PeerState::ready || !peer.pending.empty() || peer.credits <= keep) return;
  const std::uint32_t excess = std::min<std::uint32_t>(peer.credits - keep, UINT16_MAX);
  if (!send_control(peer, wire::FrameKind::returned, excess, out)) return;  // it will ask again
  peer.credits -= excess;
}

// Gives back the memory of slabs that nothing uses any more.
void Core::drop_slabs(Outbox& out) {
  while (slabs_asked_ == 0 && pool_.can_drop()) {
    counters_.receive_bytes -= std::uint64_t{pool_.drop_slab()} * config_.buffer_bytes;
    out.drop_slab();
  }
}

void Core::on_slab(std::uint64_t address, std::uint32_t lkey, std::uint32_t count, Outbox& out) {
  slabs_asked_ -= std::min(slabs_asked_, count);
  pool_.add_slab(address, lkey, count);
  counters_.receive_bytes += std::uint64_t{count} * config_.buffer_bytes;
  counters_.receive_bytes_peak = std::max(counters_.receive_bytes_peak, counters_.receive_bytes);
  window_changed(out);
}

void Core::on_slab_failed(Outbox& out) {
  slabs_asked_ = 0;
  ++counters_.slab_failures;
  if (pool_.total() == 0) return;  // nothing to work with; asking again would not help
  window_.cap(pool_.total());
  window_changed(out);
}

// W moved, or buffers came: ask for what is missing, post what is there, arm the limit, and let
// the peers have their larger shares.
void Core::window_changed(Outbox& out) {
  const std::uint32_t window = window_.window();
  if (window > counters_.window) ++counters_.window_grows;
  counters_.window = window;
  counters_.window_peak = std::max<std::uint64_t>(counters_.window_peak, window);
  pool_.restore(window);
  if (pool_.total() + slabs_asked_ < window) {
    out.want_slab(window - pool_.total() - slabs_asked_);
    slabs_asked_ = window - pool_.total();
  }
  // Credits only for buffers that exist, or will before the next frame leaves.
  const std::uint32_t backed = pool_.backed() + slabs_asked_;
  eager_.set_window(std::min(window, backed), backed);
  pool_.post(pool_.free(), out.receives);
  book_buffers();

  // The limit event is a one-shot hint: armed when already below the limit, some devices stay
  // silent for ever. So look ourselves, before each arming.
  if (below_limit() && grow_at_limit()) {
    ++counters_.srq_limit_self_raised;
    return window_changed(out);
  }
  arm_limit(out);

  for (std::uint32_t i = 0; i < peer_count(); ++i) {
    if (peers_[i].state == PeerState::ready) note_due(peers_[i]);
  }
  give_back_credits(out);
}

}  // namespace weir
