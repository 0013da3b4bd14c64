#include "transport/core/sender.h"

#include <algorithm>
#include <cstring>

#include "transport/wire/car.h"

namespace weir {
namespace {

using wire::FrameKind;

// No receive queue is this deep.
constexpr std::uint32_t most_credits = 1u << 24;

}  // namespace

// ---- messages ----

[[gnu::flatten]] Status Sender::send(const Now& now, Peer& peer, SendSlot* slot,
                                     std::uint32_t length_bytes, std::uint8_t tag, bool must_take,
                                     Outbox& out) {
  Outgoing& to = peer.outgoing;
  if (length_bytes > max_payload_bytes() || length_bytes > slot->payload_capacity_bytes()) {
    return Status::too_large;
  }
  if (peer.connection.is_over()) return Status::peer_failed;
  if (!must_take && to.pending_.size() >= config_.pending_frames) {
    ++counters_.back_pressure;
    return Status::back_pressure;
  }

  begin_frame(*slot, length_bytes, tag);
  if (may_go_at_once(peer) && (gate_ == nullptr || gate_->passes(*slot))) [[likely]] {
    ++to.burst_;
    post_messages(peer, lanes_[peer.connection.lane()], slot, true, out);
    return Status::ok;
  }
  if (peer.connection.has_moved()) [[unlikely]] {
    --counters_.messages_sent;
    counters_.bytes_sent -= length_bytes;
    return Status::elsewhere;
  }
  push(peer, slot);
  counters_.pending_peak = std::max<std::uint64_t>(counters_.pending_peak, to.pending_.size());
  if (peer.connection.is_ready()) {
    const bool at_once = to.burst_ < most_at_once(to);
    ++to.burst_;
    post_pending(now, peer, !at_once, out);
  }
  return Status::ok;
}

// The usual case: nothing is ahead of the frame, and everything it needs is there.
bool Sender::may_go_at_once(Peer& peer) {
  Outgoing& to = peer.outgoing;
  if (to.round_ != round_) {
    to.round_ = round_;
    to.floods_ = to.burst_ >= config_.flood_messages;
    to.burst_ = 0;
  }
  return peer.connection.is_ready() && to.pending_.empty() && to.credits_ > 0 &&
         to.burst_ < most_at_once(to) && lanes_[peer.connection.lane()].queue.has_room(false);
}

bool Sender::would_hold(const Peer& peer) const {
  const Outgoing& to = peer.outgoing;
  return !to.pending_.empty() || (to.round_ == round_ && to.burst_ >= most_at_once(to));
}

std::uint32_t Sender::most_at_once(const Outgoing& to) const {
  return to.floods_ ? config_.burst_frames : std::max(config_.burst_frames, config_.flood_messages);
}

Status Sender::send_frame(const Now& now, Peer& peer, SendSlot* slot, Outbox& out) {
  const bool over = peer.connection.is_over();
  if (over || peer.connection.has_moved()) return over ? Status::peer_failed : Status::elsewhere;
  push(peer, slot);
  if (peer.connection.is_ready()) post_pending(now, peer, false, out);
  return Status::ok;
}

// ---- trains ----

Status Sender::admit_train(Peer& peer) {
  if (peer.connection.is_over()) return Status::peer_failed;
  if (peer.connection.has_moved()) return Status::elsewhere;
  if (!config_.proxy && peer.outgoing.pending_.size() < most_cars_waiting) return Status::ok;
  ++counters_.trains_refused;
  return Status::back_pressure;
}

// The last car wakes the receiver, and so does one with the last credit: the others need more.
void Sender::send_car(const Now& now, Peer& peer, SendSlot* slot, std::uint32_t length_bytes,
                      bool is_last, Outbox& out) {
  Outgoing& to = peer.outgoing;
  begin_frame(*slot, length_bytes, wire::car_tag);
  slot->is_car = true;
  slot->wakes = is_last || to.pending_.size() + 1 >= to.credits_;
  ++to.burst_;  // the next frame waits for its turn, as behind any burst
  push(peer, slot);
  if (!is_last) return;
  ++counters_.trains_sent;
  if (peer.connection.is_ready()) post_pending(now, peer, false, out);
  if (to.has_pending()) ++counters_.trains_waited;
}

void Sender::let_train(Peer& peer, bool may, Outbox& out) {
  Outgoing& to = peer.outgoing;
  if (to.may_train_ == may) return;
  to.may_train_ = may;
  to.owes_may_train_ = true;
  tell_may_train(peer, out);
}

void Sender::tell_may_train(Peer& peer, Outbox& out) {
  Outgoing& to = peer.outgoing;
  if (!to.owes_may_train_ || !peer.connection.is_ready() || peer.connection.left()) return;
  to.owes_may_train_ = !send_control(peer, FrameKind::trains, to.may_train_ ? 1 : 0, out);
  note_owed(peer);
}

std::byte* Sender::append(Peer& peer, std::uint32_t length_bytes, std::uint8_t tag) {
  SendSlot* slot = peer.outgoing.pending_.back();
  if (slot == nullptr || peer.connection.is_over()) return nullptr;
  if (!is_open_for_append(*slot, length_bytes)) return nullptr;
  ++counters_.messages_sent;
  ++counters_.messages_bundled;
  ++peer.outgoing.burst_;
  counters_.bytes_sent += length_bytes;
  return add_message(*slot, length_bytes, tag);
}

bool Sender::is_open_for_append(const SendSlot& slot, std::uint32_t length_bytes) const {
  if (length_bytes > config_.bundle_message_bytes || slot.notify) return false;
  if (slot.kind != FrameKind::messages) return false;
  const std::size_t end =
      wire::next_message_offset(slot.frame_bytes) + wire::message_header_bytes + length_bytes;
  return end <= std::min({slot.capacity_bytes, config_.bundle_bytes, frame_bytes_max_});
}

// Counts the frame's first message as sent.
void Sender::begin_frame(SendSlot& slot, std::uint32_t length_bytes, std::uint8_t tag) {
  slot.frame_bytes = wire::frame_header_bytes;
  slot.messages = 0;
  add_message(slot, length_bytes, tag);
  ++counters_.messages_sent;
  counters_.bytes_sent += length_bytes;
}

// Writes the header of one more message and returns where its payload belongs. The previous message
// is padded now; the last message of a frame is not padded.
std::byte* Sender::add_message(SendSlot& slot, std::uint32_t length_bytes, std::uint8_t tag) {
  const std::uint32_t start = wire::next_message_offset(slot.frame_bytes);
  const std::uint64_t zeros = 0;  // the padding is shorter, and the header follows it
  std::memcpy(slot.frame + slot.frame_bytes, &zeros, sizeof zeros);
  wire::put(slot.frame + start, wire::MessageHeader{length_bytes, tag});
  slot.frame_bytes = start + static_cast<std::uint32_t>(wire::message_header_bytes) + length_bytes;
  ++slot.messages;
  return slot.frame + start + wire::message_header_bytes;
}

void Sender::push(Peer& peer, SendSlot* slot) {
  peer.outgoing.pending_.push(slot);
  note_pending(*slot, 1);
}

void Sender::push_front(Peer& peer, SendSlot* slot) {
  peer.outgoing.pending_.push_front(slot);
  note_pending(*slot, 1);
}

// Posts pending frames, oldest first, while there are credits and queue slots and the gate permits.
// With `keep_open_bundle` the youngest frame stays while it can still take small messages.
void Sender::post_pending(const Now& now, Peer& peer, bool keep_open_bundle, Outbox& out) {
  Outgoing& to = peer.outgoing;
  if (to.pending_.empty()) return;
  Lane& lane = lanes_[peer.connection.lane()];
  while (SendSlot* slot = to.pending_.front()) {
    if (keep_open_bundle && slot == to.pending_.back() && is_open_for_append(*slot, 0)) {
      hold(peer);
      break;
    }
    if (gate_ != nullptr) [[unlikely]] {
      const RequestGate::Way way = gate_->way(now, peer, *slot);
      if (way == RequestGate::Way::blocked) break;
      if (way == RequestGate::Way::taken) {
        pop(peer);
        continue;
      }
    }
    if (!lane.queue.has_room(false)) {
      ++counters_.queue_stalls;
      break;
    }
    if (to.credits_ == 0) {
      ++counters_.credit_stalls;
      break;
    }
    if (gate_ != nullptr && !gate_->admit(now, peer, *slot)) break;
    pop(peer);
    post_messages(peer, lane, slot, false, out);
  }
  close_chain(lane, out);
}

// Spends a credit on a frame of messages.
void Sender::post_messages(Peer& peer, Lane& lane, SendSlot* slot, bool ends_chain, Outbox& out) {
  --peer.outgoing.credits_;
  receiver_.post(out);
  receiver_.note_went(peer.share);
  post_frame(peer, lane, slot, slot->kind, receiver_.top_up(peer.share), ends_chain, out);
  ++counters_.frames_sent;
}

// Receives are posted by now, so the frame may carry credits for them.
void Sender::post_frame(Peer& peer, Lane& lane, SendSlot* slot, FrameKind kind,
                        std::uint32_t credits, bool ends_chain, Outbox& out) {
  Outgoing& to = peer.outgoing;
  wire::FrameHeader header;
  header.kind = kind;
  header.starved = to.credits_ == 0 && (!to.pending_.empty() || to.owes_lane_end_);
  header.control_credits = to.control_owed_;
  header.credits = static_cast<std::uint16_t>(credits);
  header.sequence = lane.tx_sequence++;
  to.control_owed_ = 0;
  wire::put(slot->frame, header);

  const SendQueue::Posted posted = lane.queue.post(slot, ends_chain);
  const bool inlined = slot->frame_bytes <= config_.inline_bytes;
  counters_.frames_inlined += inlined ? 1 : 0;
  counters_.sends_signalled += posted.signalled ? 1 : 0;
  out.work.push_back({posted.id, peer.connection.lane(), Opcode::send, posted.signalled, inlined,
                      slot->frame_bytes, slot->lkey, reinterpret_cast<std::uint64_t>(slot->frame)});
  if (to.wakes_ != wire::Wakes::none) [[unlikely]]
    out.work.back().solicited = slot->wakes || to.wakes_ == wire::Wakes::all;
  if (posted.full) [[unlikely]]
    listener_.on_queue_full(peer);
}

// The last work request of the chain asks for a completion if somebody waits for one.
void Sender::close_chain(Lane& lane, Outbox& out) {
  if (!lane.queue.wants_signal() || out.work.empty()) return;
  WorkRequest& last = out.work.back();
  if (&lanes_[last.lane] != &lane || last.signalled) return;
  last.signalled = true;
  lane.queue.mark_signalled();
  ++counters_.sends_signalled;
}

// ---- rounds ----

void Sender::hold(Peer& peer) {
  if (!peer.held.linked) held_.push_front(&peer);
}

void Sender::post_held(const Now& now, Outbox& out) {
  begin_round();
  while (Peer* const peer = held_.pop()) {
    if (peer->connection.is_open()) go_on_with_all(now, *peer, out);
  }
}

// ---- what the peer gives ----

void Sender::begin(Peer& peer) {
  peer.outgoing.credits_ = 0;
  peer.outgoing.control_credits_ = 0;
  peer.outgoing.control_owed_ = 0;
  set_takes_trains(peer, true);
  peer.outgoing.owes_may_train_ = !peer.outgoing.may_train_;
}

void Sender::grant(Peer& peer, std::uint32_t credits, std::uint32_t control_credits) {
  peer.outgoing.credits_ += credits;
  peer.outgoing.control_credits_ = static_cast<std::uint8_t>(
      std::min<std::uint32_t>(control_credits, config_.credits.control_reserve));
}

Sender::Booked Sender::book(Peer& peer, const wire::FrameHeader& header) {
  Outgoing& to = peer.outgoing;
  if (!wire::carries_no_grant(header.kind)) to.credits_ += header.credits;
  const std::uint32_t control = std::uint32_t{to.control_credits_} + header.control_credits;
  to.control_credits_ = static_cast<std::uint8_t>(control);
  if (to.credits_ > most_credits) return Booked::too_many_credits;
  return control > config_.credits.control_reserve ? Booked::too_many_control_credits
                                                   : Booked::good;
}

void Sender::return_credits(Peer& peer, std::uint32_t keep, Outbox& out) {
  Outgoing& to = peer.outgoing;
  if (!peer.connection.is_ready() || !to.pending_.empty() || to.credits_ <= keep) return;
  const std::uint32_t excess = std::min<std::uint32_t>(to.credits_ - keep, UINT16_MAX);
  if (!send_control(peer, FrameKind::returned, excess, out)) return;  // the peer will ask again
  to.credits_ -= excess;
}

// ---- control frames ----

// `credits` is for frames that grant none; others carry what the peer can get. False if the
// frame must wait for a slot, a credit, or room in the queue. A lane end costs an eager credit:
// eager credits come back by themselves, and transfers may wait for the lane.
bool Sender::send_control(Peer& peer, FrameKind kind, std::uint32_t credits, Outbox& out,
                          const HandoverMessage* handover) {
  Outgoing& to = peer.outgoing;
  Lane& lane = lanes_[peer.connection.lane()];
  if (control_slots_.empty() || !lane.queue.has_room(true)) return false;
  const bool grants = !wire::carries_no_grant(kind);
  if (kind == FrameKind::lane_end) {
    if (to.credits_ == 0) return false;
    --to.credits_;
  } else if (!is_free(kind)) {
    // The last control credit is for giving credits: spent otherwise, it might never come back from
    // a peer that waits for credits.
    if (to.control_credits_ < (grants ? 1 : 2)) return false;
    --to.control_credits_;
  }
  receiver_.post(out);
  if (grants) credits = receiver_.top_up(peer.share);
  SendSlot* slot = control_slots_.pop();
  slot->frame_bytes = wire::frame_header_bytes;
  if (kind == FrameKind::lane_end) {
    wire::put(slot->frame + wire::frame_header_bytes, to.lane_end_);
    slot->frame_bytes = wire::lane_frame_bytes;
  }
  if (handover != nullptr) {
    wire::put(slot->frame + wire::frame_header_bytes, *handover);
    slot->frame_bytes = wire::handover_frame_bytes;
  }
  slot->messages = 0;
  slot->notify = true;  // few slots: each must come back soon
  post_frame(peer, lane, slot, kind, credits, true, out);
  // Transfers may wait for the lane, or frames for the answer, while the peer computes.
  const bool answers_part = kind == FrameKind::goodbye && peer.connection.is_ready();
  out.work.back().solicited = kind == FrameKind::lane_end || kind == FrameKind::part ||
                              kind == FrameKind::stay || kind == FrameKind::handover ||
                              answers_part;
  ++counters_.control_sent;
  return true;
}

void Sender::owe_lane_end(Peer& peer, const wire::LaneEnd& end, Outbox& out) {
  peer.outgoing.lane_end_ = end;
  peer.outgoing.owes_lane_end_ = true;
  tell_lane_end(peer, out);
}

void Sender::send_lane_end(Peer& peer, Outbox& out) {
  Outgoing& to = peer.outgoing;
  if (!peer.connection.is_ready() || peer.connection.left()) return;
  to.owes_lane_end_ = !send_control(peer, FrameKind::lane_end, 0, out);
  note_owed(peer);
}

void Sender::note_owed(Peer& peer) {
  if (peer.owed.linked) return;
  const Outgoing& to = peer.outgoing;
  if (receiver_.is_low(peer.share) || to.owes_lane_end_ || to.owes_may_train_ ||
      owes_all_control(to)) {
    owed_.push(&peer);
  }
}

// The peer has no control credits left, so it could not ask for anything. One frame of ours gives
// back at least two credits, so the exchange ends.
bool Sender::owes_all_control(const Outgoing& to) const {
  return to.control_owed_ >= config_.credits.control_reserve;
}

void Sender::send_owed(Outbox& out) {
  if (offers_left_ > 0) [[unlikely]]
    offer_some();
  Peer* next = owed_.front();
  bool short_of_credits = false;
  for (std::size_t left = owed_.size(); left > 0; --left) {
    Peer& peer = *next;
    next = owed_.next(next);
    tell_lane_end(peer, out);
    tell_may_train(peer, out);
    const bool low = peer.connection.is_ready() && receiver_.is_low(peer.share);
    short_of_credits = short_of_credits || (low && receiver_.is_short(peer.share));
    const bool gives = low && receiver_.is_worth_a_frame(peer.share);
    const bool answers = peer.connection.is_ready() && owes_all_control(peer.outgoing) &&
                         peer.outgoing.control_credits_ >= 2;
    const bool sent = (gives || answers) && send_control(peer, FrameKind::credits, 0, out);
    if (sent && gives) receiver_.count_credit_frame();
    const bool later = (low && !(sent && gives)) || (answers && !sent) ||
                       (peer.connection.is_ready() &&
                        (peer.outgoing.owes_lane_end_ || peer.outgoing.owes_may_train_));
    if (!later) owed_.remove(&peer);
  }
  if (short_of_credits) [[unlikely]]
    recall_lent(out);
}

// Asks peers for the credits they hold beyond their share, because they are idle or others began to
// send. Asks a few at a time, and each once as long as the same peers are active. A peer that did
// not answer stays in the list, and is asked again. An idle peer that holds no more than its share
// leaves the list until its next message.
void Sender::recall_lent(Outbox& out) {
  if (recall_turn_ != receiver_.turns()) {
    recall_turn_ = receiver_.turns();
    recall_left_ = lent_.size();
  }
  for (int looks = 8; looks > 0 && recall_left_ > 0; --looks, --recall_left_) {
    Peer* const peer = lent_.pop();
    if (peer == nullptr) return;
    if (!peer->connection.is_ready() || peer->connection.left()) continue;
    const bool holds_more = receiver_.excess(peer->share) > 0;
    if (holds_more) recall(*peer, out);
    if (holds_more || receiver_.is_active(peer->share)) lent_.push(peer);
  }
}

// Without room for it, or while the peer owes the credit of an earlier one, it is tried again later.
void Sender::recall(Peer& peer, Outbox& out) {
  const std::uint32_t keep = std::min<std::uint32_t>(receiver_.target(peer.share), UINT16_MAX);
  if (send_control(peer, FrameKind::recall, keep, out)) ++counters_.credit_recalls;
}

void Sender::offer_shares(Outbox& out) {
  offers_left_ = peers_.size();
  send_owed(out);
}

void Sender::offer_some() {
  for (std::uint32_t looks = offers_at_once; looks > 0 && offers_left_ > 0; --looks) {
    --offers_left_;
    if (offer_turn_ >= peers_.size()) offer_turn_ = 0;
    Peer& peer = peers_.at(offer_turn_++);
    if (peer.connection.is_ready()) note_owed(peer);
  }
}

void Sender::recall_excess(Outbox& out) {
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_.at(i);
    if (!peer.connection.is_ready() || peer.connection.left()) continue;
    if (receiver_.excess(peer.share) == 0) continue;
    recall(peer, out);
  }
}

bool Sender::send_probe(LaneId id, Outbox& out) {
  Lane& lane = lanes_[id];
  if (!lane.queue.has_room(true)) return false;
  out.work.push_back({.id = lane.queue.post_probe(),
                      .lane = id,
                      .opcode = Opcode::probe,
                      .signalled = true,
                      .inlined = false,
                      .length_bytes = 0,
                      .lkey = 0,
                      .address = 0});
  ++counters_.probes_sent;
  return true;
}

}  // namespace weir
