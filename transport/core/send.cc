// Eager send: into the peer's pending queue, and from there, as credits and queue slots allow,
// into work requests.
//
// The first frames to a peer in a round (between two calls of progress) go at once. Later ones
// wait for the next pump, and small messages join the youngest waiting frame (a bundle): a burst
// then costs one work request for many messages, a lone message none of the wait.

#include <algorithm>
#include <cassert>

#include "transport/core/core.h"

namespace weir {

[[gnu::flatten]] Status Core::send(Time now, PeerId id, SendSlot* slot, std::uint32_t length_bytes,
                                   std::uint8_t tag, bool must_take, Outbox& out) {
  Peer& peer = at(id);
  if (length_bytes > max_payload_bytes() || length_bytes > slot->payload_capacity_bytes()) {
    return Status::too_large;
  }
  if (peer.state == PeerState::failed || peer.state == PeerState::closing) {
    return Status::peer_failed;
  }
  if (!must_take && peer.pending.size() >= config_.pending_frames) {
    ++counters_.back_pressure;
    return Status::back_pressure;
  }

  slot->frame_bytes = wire::frame_header_bytes;
  slot->messages = 0;
  add_message(*slot, length_bytes, tag);
  ++counters_.messages_sent;
  counters_.bytes_sent += length_bytes;
  if (may_go_at_once(peer) && (straight_ || passes_node(*slot))) [[likely]] {
    ++peer.burst;
    Lane& lane = at(peer.lane);
    post_messages(peer, lane, slot, out);
    close_chain(lane, out);
    return Status::ok;
  }
  peer.pending.push(slot);
  ++pending_frames_;
  counters_.pending_peak = std::max<std::uint64_t>(counters_.pending_peak, peer.pending.size());

  if (peer.state == PeerState::ready) {
    const bool at_once = peer.burst < config_.burst_frames;
    ++peer.burst;
    post_pending(now, peer, !at_once, out);
  } else if (peer.state == PeerState::idle || peer.state == PeerState::closed) {
    connect(now, peer, out);
  }
  return Status::ok;
}

// The usual case: nothing is ahead of the frame, and all that it needs is there.
bool Core::may_go_at_once(Peer& peer) {
  if (peer.burst_epoch != epoch_) {
    peer.burst_epoch = epoch_;
    peer.burst = 0;
  }
  return peer.state == PeerState::ready && peer.pending.empty() && peer.credits > 0 &&
         peer.burst < config_.burst_frames && at(peer.lane).queue.has_room(false);
}

bool Core::would_hold(PeerId id) const {
  const Peer& peer = at(id);
  return !peer.pending.empty() ||
         (peer.burst_epoch == epoch_ && peer.burst >= config_.burst_frames);
}

std::byte* Core::append(PeerId id, std::uint32_t length_bytes, std::uint8_t tag) {
  Peer& peer = at(id);
  SendSlot* slot = peer.pending.back();
  if (slot == nullptr || peer.state == PeerState::failed || peer.state == PeerState::closing) {
    return nullptr;
  }
  if (!open_for_append(*slot, length_bytes)) return nullptr;
  ++counters_.messages_sent;
  ++counters_.messages_bundled;
  counters_.bytes_sent += length_bytes;
  return add_message(*slot, length_bytes, tag);
}

bool Core::open_for_append(const SendSlot& slot, std::uint32_t length_bytes) const {
  if (length_bytes > config_.bundle_message_bytes || slot.notify) return false;
  if (slot.role != SlotRole::plain) return false;
  const std::size_t end =
      wire::next_message_offset(slot.frame_bytes) + wire::message_header_bytes + length_bytes;
  return end <= std::min({slot.capacity_bytes, config_.bundle_bytes, frame_bytes_max()});
}

// Writes the header of one more message and returns where its payload belongs. The message before
// is padded now; the last one of a frame is not.
std::byte* Core::add_message(SendSlot& slot, std::uint32_t length_bytes, std::uint8_t tag) {
  const std::uint32_t start = wire::next_message_offset(slot.frame_bytes);
  std::memset(slot.frame + slot.frame_bytes, 0, start - slot.frame_bytes);
  wire::put(slot.frame + start, wire::MessageHeader{length_bytes, tag});
  slot.frame_bytes = start + static_cast<std::uint32_t>(wire::message_header_bytes) + length_bytes;
  ++slot.messages;
  return slot.frame + start + wire::message_header_bytes;
}

// Posts pending frames, oldest first, while there are credits and queue slots, and the node lets
// them. With `keep_open_bundle` the youngest frame stays while it can still take small messages.
void Core::post_pending(Time now, Peer& peer, bool keep_open_bundle, Outbox& out) {
  if (peer.pending.empty()) return;
  Lane& lane = at(peer.lane);
  while (SendSlot* slot = peer.pending.front()) {
    if (keep_open_bundle && slot == peer.pending.back() && open_for_append(*slot, 0)) {
      hold(peer);
      break;
    }
    if (proxy_.joined()) [[unlikely]] {
      const Route way = route(now, peer, slot);
      if (way == Route::full) break;
      if (way == Route::given) continue;
    }
    if (!lane.queue.has_room(false)) {
      ++counters_.queue_stalls;
      break;
    }
    if (peer.credits == 0) {
      ++counters_.credit_stalls;
      break;
    }
    if (!admit(now, peer, *slot)) break;
    peer.pending.pop();
    --pending_frames_;
    post_messages(peer, lane, slot, out);
  }
  close_chain(lane, out);
}

// Spends a credit on a frame of messages.
void Core::post_messages(Peer& peer, Lane& lane, SendSlot* slot, Outbox& out) {
  --peer.credits;
  post_receives(out);
  auto kind = wire::FrameKind::messages;
  if (slot->role != SlotRole::plain) [[unlikely]] {
    const bool relayed = slot->role == SlotRole::relayed;
    kind = relayed ? wire::FrameKind::relayed : wire::FrameKind::repeated;
    counters_.proxy_sends += relayed ? 1 : 0;
    counters_.proxy_sent_in_place += relayed && is_in_cell(*slot) ? 1 : 0;
  }
  post_frame(peer, lane, slot, kind, top_up(peer, UINT16_MAX), out);
  ++counters_.frames_sent;
}

// Receives are posted by now: the frame may carry credits for them.
void Core::post_frame(Peer& peer, Lane& lane, SendSlot* slot, wire::FrameKind kind,
                      std::uint32_t credits, Outbox& out) {
  wire::FrameHeader header;
  header.kind = kind;
  header.starved = peer.credits == 0 && (!peer.pending.empty() || peer.bulk.to_tell);
  header.control_credits = peer.control_owed;
  header.credits = static_cast<std::uint16_t>(credits);
  header.sequence = lane.tx_sequence++;
  peer.control_owed = 0;
  wire::put(slot->frame, header);

  const SendQueue::Ticket ticket = lane.queue.post(slot);
  const bool inlined = slot->frame_bytes <= config_.inline_bytes;
  counters_.frames_inlined += inlined ? 1 : 0;
  counters_.sends_signalled += ticket.signalled ? 1 : 0;
  out.work.push_back({ticket.id, peer.lane, Opcode::send, ticket.signalled, inlined,
                      slot->frame_bytes, slot->lkey, reinterpret_cast<std::uint64_t>(slot->frame)});
  if (has_transfers() && !lane.queue.has_room(false)) [[unlikely]]
    scheduler_.hold_peer(lane.peer);
}

// The last work request of the chain asks for a completion if somebody waits for one.
void Core::close_chain(Lane& lane, Outbox& out) {
  if (!lane.queue.wants_signal() || out.work.empty()) return;
  WorkRequest& last = out.work.back();
  if (&at(last.lane) != &lane || last.signalled) return;
  last.signalled = true;
  lane.queue.mark_signalled();
  ++counters_.sends_signalled;
}

// A frame without messages; `credits` is for a recall or a return, the others take what there is
// for the peer. False if it must wait: no slot, no credit, or no room in the queue. A lane end
// costs an eager credit: these come back by themselves, and with fetches kept apart somebody waits
// for it.
bool Core::send_control(Peer& peer, wire::FrameKind kind, std::uint32_t credits, Outbox& out) {
  Lane& lane = at(peer.lane);
  if (control_slots_.empty() || !lane.queue.has_room(true)) return false;
  const bool moves_back = kind == wire::FrameKind::recall || kind == wire::FrameKind::returned;
  if (kind == wire::FrameKind::lane_end) {
    if (peer.credits == 0) return false;
    --peer.credits;
  } else if (kind != wire::FrameKind::goodbye) {
    // The last control credit is for giving credits. Spent otherwise, it might never come back from
    // a peer that waits for them.
    if (peer.control_credits < (moves_back ? 2 : 1)) return false;
    --peer.control_credits;
  }
  post_receives(out);
  if (!moves_back) credits = top_up(peer, UINT16_MAX);
  SendSlot* slot = control_slots_.pop();
  slot->frame_bytes = wire::frame_header_bytes;
  if (kind == wire::FrameKind::lane_end) {
    wire::put(slot->frame + wire::frame_header_bytes, peer.bulk.ours);
    slot->frame_bytes = wire::lane_frame_bytes;
  }
  slot->messages = 0;
  slot->notify = true;  // few slots: each must come back soon
  post_frame(peer, lane, slot, kind, credits, out);
  // Somebody may wait for the lane, and the peer compute.
  out.work.back().solicited = kind == wire::FrameKind::lane_end;
  close_chain(lane, out);
  ++counters_.control_sent;
  return true;
}

bool Core::send_probe(Lane& lane, Outbox& out) {
  if (!lane.queue.has_room(true)) return false;
  out.work.push_back({.id = lane.queue.post_probe(),
                      .lane = at(lane.peer).lane,
                      .opcode = Opcode::probe,
                      .signalled = true,
                      .inlined = false,
                      .length_bytes = 0,
                      .lkey = 0,
                      .address = 0});
  ++counters_.probes_sent;
  return true;
}

void Core::hold(Peer& peer) {
  if (peer.in_held_list) return;
  peer.in_held_list = true;
  peer.next_held = held_head_;
  held_head_ = &peer;
}

void Core::retire(SendSlot* slot, bool delivered, Outbox& out) {
  if (slot->messages == 0) {
    control_slots_.push(slot);
  } else if (slot->role != SlotRole::plain) [[unlikely]] {
    relay_over(slot, delivered, out);
  } else {
    out.retired.push_back({slot, delivered});
  }
}

void Core::drop_pending(Peer& peer, Outbox& out) {
  if (peer.waits.linked) waiters_.remove(&peer);
  while (SendSlot* slot = peer.pending.pop()) {
    --pending_frames_;
    retire(slot, false, out);
  }
}

void Core::pump(Time now, Outbox& out) {
  ++epoch_;
  while (held_head_ != nullptr) {
    Peer& peer = *held_head_;
    held_head_ = peer.next_held;
    peer.in_held_list = false;
    peer.next_held = nullptr;
    if (peer.state == PeerState::ready || peer.state == PeerState::closing) {
      post_pending(now, peer, false, out);
    }
  }
  post_receives(out);
  look_at_shares(out);
  drop_slabs(out);
}

}  // namespace weir
