// Start, the tables of peers and lanes, and the timer.

#include "transport/core/core.h"

#include <algorithm>
#include <cassert>

namespace weir {
namespace {

std::uint64_t key_of(PeerName name) { return std::uint64_t{name.job} << 32 | name.rank; }

// How often posted work is looked at for progress, as a part of the peer timeout.
constexpr std::int64_t stall_looks = 8;

}  // namespace

Core::Core(const Config& config)
    : config_(config),
      window_(config.window),
      shrink_(config.shrink_after),
      rnr_(config.rnr_code),
      eager_(config.credits),
      pool_(config.buffer_bytes) {
  eager_.set_window(window_.window());
  counters_.window = counters_.window_peak = window_.window();
  counters_.rnr_timer_ns = static_cast<std::uint64_t>(rnr_timer_duration(rnr_.code()).ns);
  due_.reserve(64);
}

void Core::start(Outbox& out) { window_changed(out); }

PeerId Core::add_peer(PeerName name, const wire::Key& key) {
  const PeerId id = find_or_make(name);
  at(id).key = key;
  return id;
}

PeerId Core::find_or_make(PeerName name) {
  const auto [found, is_new] = by_name_.try_emplace(key_of(name), PeerId{peer_count()});
  if (is_new) {
    peers_.emplace_back().name = name;
    if (due_.capacity() < peers_.size()) due_.reserve(peers_.size() * 2);
  }
  return found->second;
}

void Core::expect_peers(std::uint32_t count) {
  // A share that every expected peer could have at W_max, so that early ones cannot take it all.
  const std::uint32_t reserve = config_.credits.control_reserve;
  window_.allow(eager_.least_window(count));
  const std::uint32_t most = window_.max() - EagerWindow::slack(window_.max());
  const std::uint32_t each = most / std::max(count, 1u);
  eager_.set_max_credits(each > reserve ? each - reserve : 0);
}

PeerId Core::id_of(const Peer& peer) const { return by_name_.find(key_of(peer.name))->second; }

void Core::move_to(Peer& peer, PeerState state) {
  assert(allowed(peer.state, state));
  connecting_ += is_waiting(state) ? 1 : 0;
  connecting_ -= is_waiting(peer.state) ? 1 : 0;
  peer.state = state;
}

Time Core::next_deadline() const {
  Time next = may_shrink() ? next_window_look_ : Time::never();
  if (connecting_ > 0) {
    for (std::uint32_t i = 0; i < peers_.size(); ++i) {
      const Peer& peer = peers_[i];
      if (is_waiting(peer.state)) next = std::min(next, peer.attempt_deadline);
    }
  }
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    const Lane& lane = lanes_[i];
    if (lane.open && is_watched(lane)) return std::min(next, next_look_);
  }
  return next;
}

bool Core::is_watched(const Lane& lane) const {
  const Peer& peer = at(lane.peer);
  return lane.queue.awaits_completion() ||
         (peer.state == PeerState::ready && !peer.pending.empty());
}

void Core::on_timer(Time now, Outbox& out) {
  if (connecting_ > 0) {
    for (std::uint32_t i = 0; i < peers_.size(); ++i) {
      Peer& peer = peers_[i];
      if (is_waiting(peer.state) && now >= peer.attempt_deadline) {
        retry_or_fail(now, peer, FailReason::connect_timeout, out);
      }
    }
  }
  if (may_shrink() && now >= next_window_look_) look_at_window(now, out);
  // Nobody tells the time when work is posted: a lane's silence counts from the first look that
  // finds work in flight, never from before.
  if (now < next_look_) return;
  next_look_ = now + config_.peer_timeout / stall_looks;
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    if (!lane.open || !is_watched(lane)) {
      lane.watched = false;
    } else if (!lane.queue.awaits_completion()) {
      // Nothing is under way that could fail: whether the peer computes or is dead, a probe tells.
      lane.watched = false;
      send_probe(lane, out);
    } else if (!lane.watched || lane.watched_retired != lane.queue.retired()) {
      lane.watched = true;
      lane.watched_retired = lane.queue.retired();
      lane.watched_since = now;
    } else if (now - lane.watched_since >= config_.peer_timeout) {
      fail(at(lane.peer), FailReason::stalled, CompletionStatus::success, out);
    }
  }
}

bool Core::conserved() const {
  std::uint32_t out = 0;
  for (std::uint32_t i = 0; i < peers_.size(); ++i) out += peers_[i].share.out;
  return pool_.conserved() && out == eager_.out();
}

}  // namespace weir
