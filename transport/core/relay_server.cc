#include "transport/core/relay_server.h"

#include <algorithm>
#include <cstring>

namespace weir {
namespace {

// A server that found nothing to do in so many looks gives its token back.
constexpr std::uint32_t most_idle_looks = 64;

// Frames that may wait at a server for one destination. Further ones stay with their tasks, so that
// one slow receiver does not take everything the server has.
constexpr std::size_t most_waiting = 4;

// Requests taken from one queue before the next queue's turn.
constexpr int most_in_turn = 4;

}  // namespace

void RelayServer::start(std::optional<std::uint32_t> cells_lkey) {
  cells_lkey_ = cells_lkey;
  carriers_.reserve(most_slots);
  carried_to_.reserve(most_slots * Carrier::most);
}

void RelayServer::lend_slot(SendSlot* slot) {
  carriers_.push_back({.frame = slot->frame, .lkey = slot->lkey, .task = {}, .at = {}});
  slot->carrier = static_cast<std::uint16_t>(carriers_.size() - 1);
  slots_.push(slot);
}

bool RelayServer::try_serve() {
  if (!proxy_.try_serve()) return false;
  ++counters_.proxy_terms;
  idle_looks_ = 0;
  return true;
}

void RelayServer::serve(const Now& now, bool present, Outbox& out) {
  if (!proxy_.serving() && (!proxy_.waits() || !try_serve())) return;
  bool idle = true;
  std::uint32_t task = 0;
  proxy_.begin_round();
  while (!slots_.empty() && proxy_.next_queue(task)) {
    Proxy::Work work;
    for (int i = 0; i < most_in_turn && !slots_.empty() && proxy_.take(task, work); ++i) {
      idle = false;
      relay(now, work, out);
    }
  }
  for (const PeerId id : carried_to_) {
    Peer& peer = peers_[id];
    if (peer.connection.is_ready()) sender_.go_on(now, peer, out);
  }
  carried_to_.clear();
  idle_looks_ = idle ? idle_looks_ + 1 : 0;
  // An application that computes serves nobody: another process has to serve.
  if (proxy_.in_hand() == 0 && (idle_looks_ >= most_idle_looks || !present)) proxy_.give();
}

void RelayServer::relay(const Now& now, const Proxy::Work& work, Outbox& out) {
  if (work.is_void) return proxy_.complete(work.task, work.at, Proxy::sent);
  ++counters_.proxy_served;
  PeerId to = PeerId::none;
  if (refuses(now, work, to, out)) {
    ++counters_.proxy_refused;
    return proxy_.complete(work.task, work.at, Proxy::refused);
  }
  Peer& peer = peers_[to];
  SendSlot* slot = peer.outgoing.youngest();
  if (slot != nullptr && slot->kind == wire::FrameKind::relayed && has_room(*slot, work)) {
    ++counters_.proxy_coalesced;
    if (is_in_cell(*slot)) copy_home(*slot);
    add_section(*slot, work);
  } else {
    slot = slots_.pop();
    begin_frame(*slot, work);
    sender_.push(peer, slot);
  }
  if (carried_to_.empty() || carried_to_.back() != to) carried_to_.push_back(to);
}

// Whether the task has to send this itself: we do not know the receiver, have no connection to it
// (then we make one, for the next time), or too much waits for it already.
bool RelayServer::refuses(const Now& now, const Proxy::Work& work, PeerId& to, Outbox& out) {
  if (work.to.job != config_.self.job || work.to == config_.self) return true;
  if (work.length_bytes >
      config_.buffer_bytes - wire::frame_header_bytes - wire::section_header_bytes) {
    return true;
  }
  if (!wire::check_messages(work.bytes, work.length_bytes, true)) return true;
  to = peers_.find(work.to);
  if (to == PeerId::none || wire::first_word(peers_[to].connection.key()) == 0) {
    out.want(work.to);
    return true;
  }
  Peer& peer = peers_[to];
  if (wire::first_word(peer.connection.key()) != work.key) return true;
  if (peer.connection.state() == PeerState::idle) connector_.connect(now, peer, out);
  return !peer.connection.is_ready() || peer.connection.left() ||
         peer.outgoing.pending_frames() >= most_waiting;
}

bool RelayServer::has_room(const SendSlot& slot, const Proxy::Work& work) const {
  const std::size_t end =
      wire::next_message_offset(slot.frame_bytes) + wire::section_header_bytes + work.length_bytes;
  return carriers_[slot.carrier].count < Carrier::most &&
         end <= std::min({slot.capacity_bytes, config_.bundle_bytes, config_.buffer_bytes});
}

// Until another task frame joins it, the frame stays in the cell that its task has put it in.
void RelayServer::begin_frame(SendSlot& slot, const Proxy::Work& work) {
  slot.kind = wire::FrameKind::relayed;
  slot.notify = false;
  slot.frame_bytes = wire::frame_header_bytes;
  slot.messages = 0;
  carriers_[slot.carrier].count = 0;
  if (cells_lkey_) {
    slot.frame = work.frame;
    slot.lkey = *cells_lkey_;
  }
  add_section(slot, work);
}

void RelayServer::copy_home(SendSlot& slot) {
  const Carrier& carrier = carriers_[slot.carrier];
  std::memcpy(carrier.frame, slot.frame, slot.frame_bytes);
  slot.frame = carrier.frame;
  slot.lkey = carrier.lkey;
}

void RelayServer::add_section(SendSlot& slot, const Proxy::Work& work) {
  const std::uint32_t start = wire::next_message_offset(slot.frame_bytes);
  std::memset(slot.frame + slot.frame_bytes, 0, start - slot.frame_bytes);
  wire::put(slot.frame + start, wire::SectionHeader{work.rank, work.length_bytes});
  if (!is_in_cell(slot)) {
    std::memcpy(slot.frame + start + wire::section_header_bytes, work.bytes, work.length_bytes);
  }
  slot.frame_bytes =
      start + static_cast<std::uint32_t>(wire::section_header_bytes) + work.length_bytes;
  ++slot.messages;
  Carrier& carrier = carriers_[slot.carrier];
  carrier.task[carrier.count] = work.task;
  carrier.at[carrier.count++] = work.at;
}

void RelayServer::on_posted(const SendSlot& slot) {
  ++counters_.proxy_sends;
  counters_.proxy_sent_in_place += is_in_cell(slot) ? 1 : 0;
}

void RelayServer::on_over(SendSlot* slot, bool delivered, Outbox& out) {
  if (!delivered) return out.fail_relay(slot);
  report(slot, Proxy::sent);
}

void RelayServer::report(SendSlot* slot, std::uint64_t outcome) {
  const Carrier& carrier = carriers_[slot->carrier];
  slot->kind = wire::FrameKind::messages;
  slot->frame = carrier.frame;
  slot->lkey = carrier.lkey;
  for (std::uint32_t i = 0; i < carrier.count; ++i) {
    proxy_.complete(carrier.task[i], carrier.at[i], outcome);
  }
  slots_.push(slot);
}

}  // namespace weir
