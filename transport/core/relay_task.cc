#include "transport/core/relay_task.h"

#include <algorithm>
#include <utility>

namespace weir {

static_assert(proxy_headroom == wire::frame_header_bytes + wire::section_header_bytes);

namespace {

// How long a task itself sends to a peer that a server has refused: at first, and at most.
constexpr Duration first_pause = milliseconds(2);
constexpr Duration longest_pause = seconds(1);

}  // namespace

bool RelayTask::may_relay(const Now& now, const Peer& peer) const {
  return peer.connection.is_ready() && !peer.connection.left() && !peer.relayed.never_ &&
         now >= peer.relayed.not_before_ && peer.name.job == config_.self.job &&
         peer.name != config_.self && wire::first_word(peer.connection.key()) != 0;
}

RequestGate::Way RelayTask::way(const Now& now, Peer& peer, SendSlot& frame) {
  using Way = RequestGate::Way;
  Relayed& relayed = peer.relayed;
  if (frame.kind != wire::FrameKind::messages || jammed_ || relayed.taken_back_) {
    return Way::own_lane;
  }
  if (relayed.given_ == 0) {
    if (!may_relay(now, peer) || !lanes_[peer.connection.lane()].queue.empty()) {
      return Way::own_lane;
    }
    if (server_.serving() || server_.try_serve()) return Way::own_lane;
  }
  std::byte* const messages = frame.frame + wire::frame_header_bytes;
  wire::put_relay_sequence(messages, relayed.sequence_);
  const std::uint64_t number = proxy_.next_number();
  if (!proxy_.submit(peer.name, wire::first_word(peer.connection.key()), config_.self.rank,
                     messages,
                     frame.frame_bytes - static_cast<std::uint32_t>(wire::frame_header_bytes))) {
    wire::put_relay_sequence(messages, 0);
    ++counters_.proxy_full;
    return relayed.given_ == 0 ? Way::own_lane : Way::blocked;
  }
  relayed.sequence_ = (relayed.sequence_ + 1) & wire::relay_sequence_mask;
  given_[number % proxy_depth] = {&frame, peer.id};
  ++relayed.given_;
  if (given_count_++ == 0) moved_ = now;
  ++counters_.proxy_submitted;
  return Way::taken;
}

void RelayTask::look(const Now& now, Outbox& out) {
  look_at_outcomes(now, out);
  if (given_count_ > 0 && !jammed_ && now - moved_ >= config_.server_silence) {
    go_on_without_server(now, out);
  }
}

// Handles the outcomes of given frames, oldest first.
void RelayTask::look_at_outcomes(const Now& now, Outbox& out) {
  for (;;) {
    std::uint64_t outcome = 0;
    const Retirement what =
        proxy_.oldest(outcome, [this](ProcessId id) { return id != dead_server_; });
    if (what == Retirement::empty || what == Retirement::pending) break;
    Given& given = given_[proxy_.oldest_number() % proxy_depth];
    const bool arrived = what == Retirement::done && outcome == Proxy::sent;
    // Take frames back before this one leaves the line: until then, servers take no later ones.
    if (what == Retirement::in_doubt && !jammed_) {
      go_on_without_server(now, out);
    } else if (!arrived && given.slot != nullptr) {
      Relayed& relayed = peers_[given.peer].relayed;
      relayed.pause_ = std::clamp(relayed.pause_ * 2, first_pause, longest_pause);
      relayed.not_before_ = now + relayed.pause_;
      take_back(now, given.peer, out);
    }
    const Given over = std::exchange(given, {});
    proxy_.drop_oldest(outcome);
    moved_ = now;
    if (what == Retirement::stale) continue;
    --given_count_;
    if (over.peer == PeerId::none) continue;
    Peer& peer = peers_[over.peer];
    if (--peer.relayed.given_ == 0) peer.relayed.taken_back_ = false;
    if (over.slot != nullptr) {
      peer.relayed.pause_ = {};
      out.retired.push_back({over.slot, true});
    }
    if (peer.connection.is_ready()) sender_.go_on(now, peer, out);
  }
  proxy_.clear_doubt();
  if (jammed_ && !proxy_.outstanding()) jammed_ = false;
}

// The server is dead, or does not move.
void RelayTask::go_on_without_server(const Now& now, Outbox& out) {
  jammed_ = true;
  ++counters_.proxy_stuck;
  take_back(now, PeerId::none, out);
}

// Repeats frames given for a peer, or for all, that are not known to have arrived: in order, before
// all pending frames. Servers then skip these frames; one that has a frame in hand may still send
// it.
void RelayTask::take_back(const Now& now, PeerId only, Outbox& out) {
  const std::uint64_t oldest = proxy_.oldest_number();
  for (std::uint64_t number = proxy_.next_number(); number-- != oldest;) {
    Given& given = given_[number % proxy_depth];
    if (given.slot == nullptr || (only != PeerId::none && given.peer != only)) continue;
    Peer& peer = peers_[given.peer];
    peer.relayed.taken_back_ = true;
    proxy_.make_void(number);
    if (proxy_.arrived(number)) continue;
    SendSlot* const slot = std::exchange(given.slot, nullptr);
    slot->kind = wire::FrameKind::repeated;
    sender_.push_front(peer, slot);
    ++counters_.proxy_repeated;
  }
  for (std::uint64_t number = oldest; number != proxy_.next_number(); ++number) {
    const PeerId id = given_[number % proxy_depth].peer;
    if (id == PeerId::none || (only != PeerId::none && id != only)) continue;
    Peer& peer = peers_[id];
    if (peer.connection.is_ready()) sender_.go_on(now, peer, out);
  }
}

// A server that has a frame in hand may still send it, so its number is used up and the peer gets
// no more frames this way. A frame that no server has begun must not be sent at all: an earlier one
// may have been sent back, and the receiver would miss that number.
void RelayTask::drop(Peer& peer, Outbox& out) {
  if (peer.relayed.given_ == 0) return;
  peer.relayed.never_ = true;
  for (std::uint64_t number = proxy_.oldest_number(); number != proxy_.next_number(); ++number) {
    Given& given = given_[number % proxy_depth];
    if (given.peer != peer.id) continue;
    proxy_.make_void(number);
    if (given.slot != nullptr) out.retired.push_back({given.slot, false});
    given = {};
  }
  peer.relayed.given_ = 0;
  peer.relayed.taken_back_ = false;
}

}  // namespace weir
