// The node's proxy (flowctl/proxy.h): frames that go by a server of the node, and those of others
// that this process sends as their server.
//
// A frame's way is decided when it is posted. It goes by the own lane when this process is the
// server, or can be at once; else it is copied into shared memory, and its slot kept until the
// server says that it arrived. Order is kept by never having frames for a peer on both ways: frames
// are given to a server when the own lane is empty, and posted when all that was given is over.
//
// When a server sends something back, or is dead, or stands still, nobody knows what arrived. Then
// this process takes back what it gave, for that peer or for all: it repeats, in order, on its own
// lanes, what is not known to have arrived, and what comes later goes the same way until no server
// has anything of it in hand. Everything given has a number among all for its receiver, who drops
// what it has had.

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/core/core.h"

namespace weir {

static_assert(proxy_headroom == wire::frame_header_bytes + wire::section_header_bytes);

namespace {

// A server that found nothing to do for so many progress calls gives its token back.
constexpr std::uint32_t most_idle_looks = 64;

// Frames that may wait at a server for one destination. More of them stay with their tasks, so that
// one slow receiver does not take all that the server has.
constexpr std::size_t most_waiting = 4;

// Requests taken from one queue before it is the next one's turn.
constexpr int most_in_turn = 4;

// How long a task sends itself to a peer for which a server has refused: at first, and at most.
constexpr Duration first_pause = milliseconds(2);
constexpr Duration longest_pause = seconds(1);

// Some bits of a process's key, to tell that task and server mean the same one.
std::uint64_t word_of(const wire::Key& key) {
  std::uint64_t word;
  static_assert(sizeof key >= sizeof word);
  std::memcpy(&word, key.data(), sizeof word);
  return word;
}

}  // namespace

void Core::join_proxy(const ProxyGround& ground, std::uint32_t slot, ProcessId self,
                      std::optional<std::uint32_t> cells_lkey) {
  proxy_.join(ground, slot, self);
  cells_lkey_ = cells_lkey;
  carried_.reserve(most_relay_slots);
  carried_to_.reserve(most_relay_slots * Carried::most);
  straight_ = false;
  jammed_ = proxy_.outstanding();  // of an earlier owner of the slot
}

void Core::lend_relay_slot(SendSlot* slot) {
  carried_.push_back({.frame = slot->frame, .lkey = slot->lkey, .task = {}, .at = {}});
  slot->relay = static_cast<std::uint16_t>(carried_.size() - 1);
  relay_slots_.push(slot);
}

void Core::leave_proxy() {
  if (proxy_.serving() && proxy_.in_hand() == 0) proxy_.give();
}

// ---- the task ----

bool Core::may_relay(Time now, const Peer& peer) const {
  return peer.state == PeerState::ready && !peer.left && !peer.relay_never &&
         now >= peer.relay_from && peer.name.job == config_.self.job && peer.name != config_.self &&
         word_of(peer.key) != 0;
}

// Which way the oldest pending frame goes. Takes it out of the pending queue if a server gets it.
Core::Route Core::route(Time now, Peer& peer, SendSlot* slot) {
  if (slot->role != SlotRole::plain || jammed_ || peer.taken_back) return Route::own;
  if (peer.relayed == 0) {
    if (!may_relay(now, peer) || !at(peer.lane).queue.empty()) return Route::own;
    if (proxy_.serving()) return Route::own;
    if (proxy_.try_serve()) {
      ++counters_.proxy_terms;
      idle_looks_ = 0;
      return Route::own;
    }
  }
  std::byte* const messages = slot->frame + wire::frame_header_bytes;
  wire::put_relay_sequence(messages, peer.relay_sequence);
  const std::uint64_t number = proxy_.next_number();
  if (!proxy_.submit(peer.name, word_of(peer.key), config_.self.rank, messages,
                     slot->frame_bytes - static_cast<std::uint32_t>(wire::frame_header_bytes))) {
    wire::put_relay_sequence(messages, 0);
    ++counters_.proxy_full;
    return peer.relayed == 0 ? Route::own : Route::full;
  }
  peer.pending.pop();
  --pending_frames_;
  peer.relay_sequence = (peer.relay_sequence + 1) & wire::relay_sequence_mask;
  given_[number % proxy_depth] = {slot, at(peer.lane).peer};
  ++peer.relayed;
  if (relayed_++ == 0) moved_ = now;
  ++counters_.proxy_submitted;
  return Route::given;
}

// What became of the frames that were given, oldest first.
void Core::look_at_outcomes(Time now, Outbox& out) {
  for (;;) {
    std::uint64_t outcome = 0;
    const Retirement what =
        proxy_.oldest(outcome, [this](ProcessId id) { return id != dead_server_; });
    if (what == Retirement::empty || what == Retirement::pending) break;
    Relayed& given = given_[proxy_.oldest_number() % proxy_depth];
    const bool arrived = what == Retirement::done && outcome == Proxy::sent;
    // First this, then its place in line: it is what keeps servers from what comes after.
    if (what == Retirement::in_doubt && !jammed_) {
      go_on_without_server(now, out);
    } else if (!arrived && given.slot != nullptr) {
      Peer& peer = at(given.peer);
      peer.relay_pause = std::clamp(peer.relay_pause * 2, first_pause, longest_pause);
      peer.relay_from = now + peer.relay_pause;
      take_back(now, given.peer, out);
    }
    const Relayed over = std::exchange(given, {});
    proxy_.drop_oldest(outcome);
    moved_ = now;
    if (what == Retirement::stale) continue;
    --relayed_;
    if (over.peer == PeerId::none) continue;
    Peer& peer = at(over.peer);
    if (--peer.relayed == 0) peer.taken_back = false;
    if (over.slot != nullptr) {
      peer.relay_pause = {};
      retire(over.slot, true, out);
    }
    if (!peer.pending.empty() && peer.state == PeerState::ready) {
      post_pending(now, peer, peer.in_held_list, out);
    }
  }
  proxy_.clear_doubt();
  if (jammed_ && !proxy_.outstanding()) jammed_ = false;
}

// It is dead, or does not move.
void Core::go_on_without_server(Time now, Outbox& out) {
  jammed_ = true;
  ++counters_.proxy_stuck;
  take_back(now, PeerId::none, out);
}

// Repeats what was given for a peer, or for all, and is not known to have arrived: in order, and
// before all that is pending. Servers have nothing to do with it any more; one that has it in hand
// may still send it.
void Core::take_back(Time now, PeerId only, Outbox& out) {
  const std::uint64_t oldest = proxy_.oldest_number();
  for (std::uint64_t number = proxy_.next_number(); number-- != oldest;) {
    Relayed& given = given_[number % proxy_depth];
    if (given.slot == nullptr || (only != PeerId::none && given.peer != only)) continue;
    Peer& peer = at(given.peer);
    peer.taken_back = true;
    proxy_.make_void(number);
    if (proxy_.arrived(number)) continue;
    SendSlot* const slot = std::exchange(given.slot, nullptr);
    slot->role = SlotRole::repeated;
    peer.pending.push_front(slot);
    ++pending_frames_;
    ++counters_.proxy_repeated;
  }
  for (std::uint64_t number = oldest; number != proxy_.next_number(); ++number) {
    const PeerId id = given_[number % proxy_depth].peer;
    if (id == PeerId::none || (only != PeerId::none && id != only)) continue;
    Peer& peer = at(id);
    if (peer.state == PeerState::ready) post_pending(now, peer, peer.in_held_list, out);
  }
}

// The peer is given up, or left: nobody waits for what servers have for it. They may still send
// that, so its numbers are used up and it gets no more from them.
void Core::drop_relayed(Peer& peer, Outbox& out) {
  if (peer.relayed == 0) return;
  peer.relay_never = true;
  for (Relayed& given : given_) {
    if (given.peer == PeerId::none || &at(given.peer) != &peer) continue;
    if (given.slot != nullptr) retire(given.slot, false, out);
    given = {};
  }
  peer.relayed = 0;
  peer.taken_back = false;
}

// ---- the server ----

void Core::look_at_proxy(Time now, bool present, Outbox& out) {
  look_at_outcomes(now, out);
  if (relayed_ > 0 && !jammed_ && now - moved_ >= config_.proxy_patience) {
    go_on_without_server(now, out);
  }
  if (!proxy_.serving()) {
    if (!proxy_.waits() || !proxy_.try_serve()) return;
    ++counters_.proxy_terms;
    idle_looks_ = 0;
  }
  serve(now, present, out);
}

void Core::serve(Time now, bool present, Outbox& out) {
  bool idle = true;
  std::uint32_t task = 0;
  proxy_.begin_round();
  while (!relay_slots_.empty() && proxy_.next_queue(task)) {
    Proxy::Work work;
    for (int i = 0; i < most_in_turn && !relay_slots_.empty() && proxy_.take(task, work); ++i) {
      idle = false;
      relay(now, work, out);
    }
  }
  for (const PeerId id : carried_to_) {
    Peer& peer = at(id);
    if (peer.state == PeerState::ready) post_pending(now, peer, peer.in_held_list, out);
  }
  carried_to_.clear();
  idle_looks_ = idle ? idle_looks_ + 1 : 0;
  // An application that computes serves nobody: another process shall.
  if (proxy_.in_hand() == 0 && (idle_looks_ >= most_idle_looks || !present)) proxy_.give();
}

void Core::relay(Time now, const Proxy::Work& work, Outbox& out) {
  if (work.is_void) return proxy_.complete(work.task, work.at, Proxy::sent);
  ++counters_.proxy_served;
  PeerId to = PeerId::none;
  if (refuses(now, work, to, out)) {
    ++counters_.proxy_refused;
    return proxy_.complete(work.task, work.at, Proxy::refused);
  }
  Peer& peer = at(to);
  SendSlot* slot = peer.pending.back();
  const auto room = [&](const SendSlot& frame) {
    const std::size_t end = wire::next_message_offset(frame.frame_bytes) +
                            wire::section_header_bytes + work.length_bytes;
    return carried_[frame.relay].count < Carried::most &&
           end <= std::min({frame.capacity_bytes, config_.bundle_bytes, config_.buffer_bytes});
  };
  if (slot != nullptr && slot->role == SlotRole::relayed && room(*slot)) {
    ++counters_.proxy_coalesced;
    if (is_in_cell(*slot)) copy_home(*slot);
    add_section(*slot, work);
  } else {
    slot = relay_slots_.pop();
    begin_relay(*slot, work);
    peer.pending.push(slot);
    ++pending_frames_;
  }
  if (carried_to_.empty() || carried_to_.back() != to) carried_to_.push_back(to);
}

// Whether its task has to send this itself: we do not know the receiver, have no connection to it
// (then we make one, for the next time), or too much waits for it already.
bool Core::refuses(Time now, const Proxy::Work& work, PeerId& to, Outbox& out) {
  if (work.to.job != config_.self.job || work.to == config_.self) return true;
  if (work.length_bytes >
      config_.buffer_bytes - wire::frame_header_bytes - wire::section_header_bytes) {
    return true;
  }
  if (!wire::check_messages(work.bytes, work.length_bytes, true)) return true;
  to = find(work.to);
  if (to == PeerId::none || word_of(at(to).key) == 0) {
    out.want(work.to);
    return true;
  }
  Peer& peer = at(to);
  if (word_of(peer.key) != work.key) return true;
  if (peer.state == PeerState::idle) connect(now, peer, out);
  return peer.state != PeerState::ready || peer.left || peer.pending.size() >= most_waiting;
}

// Until others join it the frame stays where its task has put it.
void Core::begin_relay(SendSlot& slot, const Proxy::Work& work) {
  slot.role = SlotRole::relayed;
  slot.notify = false;
  slot.frame_bytes = wire::frame_header_bytes;
  slot.messages = 0;
  carried_[slot.relay].count = 0;
  if (cells_lkey_) {
    slot.frame = work.frame;
    slot.lkey = *cells_lkey_;
  }
  add_section(slot, work);
}

void Core::copy_home(SendSlot& slot) {
  const Carried& carried = carried_[slot.relay];
  std::memcpy(carried.frame, slot.frame, slot.frame_bytes);
  slot.frame = carried.frame;
  slot.lkey = carried.lkey;
}

void Core::add_section(SendSlot& slot, const Proxy::Work& work) {
  const std::uint32_t start = wire::next_message_offset(slot.frame_bytes);
  std::memset(slot.frame + slot.frame_bytes, 0, start - slot.frame_bytes);
  wire::put(slot.frame + start, wire::SectionHeader{work.rank, work.length_bytes});
  if (!is_in_cell(slot)) {
    std::memcpy(slot.frame + start + wire::section_header_bytes, work.bytes, work.length_bytes);
  }
  slot.frame_bytes =
      start + static_cast<std::uint32_t>(wire::section_header_bytes) + work.length_bytes;
  ++slot.messages;
  Carried& carried = carried_[slot.relay];
  carried.task[carried.count] = work.task;
  carried.at[carried.count++] = work.at;
}

// A frame that is not plain has left the lane. With a failed one the adapter may still send from
// the cells until the queue pair is gone, so their tasks must not hear of it before.
void Core::relay_over(SendSlot* slot, bool delivered, Outbox& out) {
  if (slot->role == SlotRole::repeated) {
    slot->role = SlotRole::plain;
    out.retired.push_back({slot, delivered});
  } else if (delivered) {
    report_relay(slot, Proxy::sent);
  } else {
    out.fail_relay(slot);
  }
}

void Core::on_relay_failed(SendSlot* slot) { report_relay(slot, Proxy::refused); }

void Core::report_relay(SendSlot* slot, std::uint64_t outcome) {
  const Carried& carried = carried_[slot->relay];
  slot->role = SlotRole::plain;
  slot->frame = carried.frame;
  slot->lkey = carried.lkey;
  for (std::uint32_t i = 0; i < carried.count; ++i) {
    proxy_.complete(carried.task[i], carried.at[i], outcome);
  }
  relay_slots_.push(slot);
}

}  // namespace weir
