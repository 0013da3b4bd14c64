// Start, the tables of peers and lanes, and the timer.

#include "transport/core/core.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace weir {
namespace {

std::uint64_t key_of(PeerName name) { return std::uint64_t{name.job} << 32 | name.rank; }

// The watch over lanes looks at all of them eight times in a peer timeout, and counts looks, not
// time: a process that was stopped for an hour has looked once, and gives its peers their chance.
constexpr int looks_in_timeout = 8;
constexpr std::uint8_t work_patience = 7;    // looks without progress after the one that found work
constexpr std::uint8_t probe_patience = 4;   // looks without an answer to a probe
constexpr std::uint32_t probe_interval = 3;  // looks from probe to probe of an idle lane
// What breaks between two looks is noticed by the end of the timeout: a lane heard just before its
// turn is probed one interval later.
static_assert(work_patience + 1 <= looks_in_timeout);
static_assert(1 + probe_interval + probe_patience <= looks_in_timeout);

// With admission the end of each chain of frames has to be heard of, for its tokens are waited for.
// And no chain of reads: it could not wait for tokens in the middle.
Core::Config fitted(Core::Config config) {
  if (config.proxy) config.queue.signal_ends = true;  // whether a lane is empty decides the way
  if (config.admission.policy == Admission::Policy::off) return config;
  config.queue.signal_ends = true;
  config.transfers.chain_bytes = 0;
  return config;
}

}  // namespace

Core::Core(const Config& config)
    : config_(fitted(config)),
      window_(config.window),
      shrink_(config.shrink_after),
      rnr_(config.rnr_code),
      eager_(config.credits),
      pool_(config.buffer_bytes),
      scheduler_(config_.transfers),
      admission_(config.admission) {
  eager_.set_window(window_.window());
  counters_.window = counters_.window_peak = window_.window();
  counters_.rnr_timer_ns = static_cast<std::uint64_t>(rnr_timer_duration(rnr_.code()).ns);
  due_.reserve(64);
  straight_ = !admission_.on();
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

PeerId Core::find(PeerName name) const {
  const auto found = by_name_.find(key_of(name));
  return found == by_name_.end() ? PeerId::none : found->second;
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
  return lane.queue.awaits_completion() || may_probe(lane);
}

// A lane to ourselves needs no probe, and the second lane of a peer none beside the first.
bool Core::may_probe(const Lane& lane) const {
  const Peer& peer = at(lane.peer);
  return peer.state == PeerState::ready && !peer.left && peer.name != config_.self &&
         &lane == &lanes_[index(peer.lane)];
}

void Core::on_timer(Time now, Outbox& out) {
  if (connecting_ > 0) {
    for (std::uint32_t i = 0; i < peers_.size(); ++i) {
      Peer& peer = peers_[i];
      if (is_waiting(peer.state) && now >= peer.attempt_deadline) {
        give_up_attempt(now, peer, out);
      }
    }
  }
  if (now >= next_look_) {
    next_look_ = now + config_.peer_timeout / looks_in_timeout;
    ++looks_;
    for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i].open) look_at(now, lanes_[i], (looks_ + i) % probe_interval == 0, out);
    }
  }
  // Last: with a peer that was given up, the window may have become larger than needed.
  if (may_shrink() && now >= next_window_look_) look_at_window(now, out);
}

// Work in flight has to make progress. Where none is in flight nothing can fail, and whoever only
// receives would wait for ever for a peer whose host is gone: RC tells nobody, and no goodbye or
// disconnect comes from a dead host. So a silent lane gets a probe when it is its turn. The turns
// are spread over the looks, so that thousands of peers are not probed at once.
void Core::look_at(Time now, Lane& lane, bool its_turn, Outbox& out) {
  const std::uint64_t heard = lane.queue.retired() + lane.rx_sequence;
  const bool silent = std::exchange(lane.heard, heard) == heard;
  if (lane.queue.awaits_completion()) {
    // Nobody tells the time when work is posted: its silence counts from the first look that finds
    // it in flight, never from before.
    if (lane.patience == 0 || lane.watched_retired != lane.queue.retired()) {
      lane.watched_retired = lane.queue.retired();
      lane.patience = work_patience;
    } else if (--lane.patience == 0) {
      fail(now, at(lane.peer), FailReason::stalled, CompletionStatus::success, out);
    }
    return;
  }
  lane.patience = 0;
  // Who has something to say, and no credits for it, does not wait for its turn.
  if (!may_probe(lane) || (at(lane.peer).pending.empty() && !(silent && its_turn))) return;
  if (!send_probe(lane, out)) return;
  lane.watched_retired = lane.queue.retired();
  lane.patience = probe_patience;
}

bool Core::conserved() const {
  std::uint32_t out = 0;
  for (std::uint32_t i = 0; i < peers_.size(); ++i) out += peers_[i].share.out;
  return pool_.conserved() && out == eager_.out() && scheduler_.conserved() &&
         (!scheduler_.stalled() || admission_.waiting());
}

}  // namespace weir
