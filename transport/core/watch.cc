#include "transport/core/watch.h"

#include <algorithm>
#include <utility>

namespace weir {
namespace {

constexpr int looks_in_timeout = 8;
constexpr std::uint8_t work_looks = 7;       // without progress, after the look that found work
constexpr std::uint8_t probe_looks = 4;      // without an answer to a probe
constexpr std::uint32_t probe_interval = 3;  // looks from probe to probe of an idle lane
// A failure between two looks is noticed by the end of the timeout: a lane heard just before its
// turn is probed one interval later.
static_assert(work_looks + 1 <= looks_in_timeout);
static_assert(1 + probe_interval + probe_looks <= looks_in_timeout);

}  // namespace

Time Watch::next_look() const {
  if (next_lane_ != all_seen) return look_began_;
  const std::uint32_t count = lanes_.size();
  const std::uint32_t most = std::min(count, lanes_at_once);
  for (std::uint32_t i = 0; i < most; ++i) {
    const std::uint32_t at = (last_watched_ + i) % count;
    if (!lanes_.at(at).open || !is_watched(lanes_.at(at))) continue;
    last_watched_ = at;
    return next_look_;
  }
  return most < count ? next_look_ : Time::never();  // a look finds out
}

bool Watch::is_watched(const Lane& lane) const {
  return lane.queue.awaits_completion() || may_probe(lane);
}

// A lane to ourselves needs no probe; for a peer, probing its lane for frames is enough.
bool Watch::may_probe(const Lane& lane) const {
  const Peer& peer = peers_[lane.peer];
  const bool is_up = peer.connection.is_ready() || peer.connection.state() == PeerState::parting;
  return is_up && !peer.connection.left() && peer.name != config_.self &&
         lane.use == LaneUse::frames;
}

void Watch::on_timer(const Now& now, Outbox& out) {
  if (next_lane_ == all_seen) {
    if (now < next_look_) return;
    next_look_ = now + config_.peer_timeout / looks_in_timeout;
    look_began_ = now;
    ++looks_;
    next_lane_ = 0;
  }
  const std::uint32_t end = std::min(lanes_.size(), next_lane_ + lanes_at_once);
  for (; next_lane_ < end; ++next_lane_) {
    const std::uint32_t i = next_lane_;
    if (lanes_.at(i).open) look_at(now, LaneId{i}, (looks_ + i) % probe_interval == 0, out);
  }
  if (next_lane_ >= lanes_.size()) next_lane_ = all_seen;
}

void Watch::look_at(const Now& now, LaneId id, bool its_turn, Outbox& out) {
  Lane& lane = lanes_[id];
  Peer& peer = peers_[lane.peer];
  Watched& watched = lane.watched;
  const std::uint64_t heard = lane.queue.retired() + lane.rx_sequence;
  const bool silent = std::exchange(watched.heard_, heard) == heard;
  if (lane.queue.awaits_completion()) {
    // The time of a post is not recorded: the silence counts from the first look that finds the
    // work in flight, never from before.
    if (watched.looks_left_ == 0 || watched.retired_ != lane.queue.retired()) {
      watched.retired_ = lane.queue.retired();
      watched.looks_left_ = work_looks;
    } else if (--watched.looks_left_ == 0) {
      connector_.on_lane_lost(
          now, peer, {peer.id, FailReason::stalled, CompletionStatus::success, {}, {}}, out);
    }
    return;
  }
  watched.looks_left_ = 0;
  // If frames wait for the peer's credits, the probe does not wait for its turn.
  if (!may_probe(lane) || (!peer.outgoing.has_pending() && !(silent && its_turn))) return;
  if (!sender_.send_probe(id, out)) return;
  watched.retired_ = lane.queue.retired();
  watched.looks_left_ = probe_looks;
}

}  // namespace weir
