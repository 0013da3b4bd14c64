// How many connections a process keeps, and which goes when another needs its place
// (`connections_max`).
//
// With all places taken, the connection that was not used for longest is asked to part; meanwhile
// the new one waits. If no peer parts in `patience`, because all are in use, one connection more is
// made: a job must not stand still for the sake of memory. It is counted, and a connection parts as
// soon as one can.
//
// At most half of the places are for requests of ours. With all of them in requests, processes could
// wait for each other in a circle: those that ask each other have no connection that could end.
//
// The order of use is that of a clock with one hand: a connection that was used since the hand
// passed it is passed again. So the eager path has nothing to note.
//
// Pure; the caller serialises. Allocates nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/list.h"
#include "base/time.h"
#include "transport/core/lanes.h"
#include "transport/core/peer.h"

namespace weir {

class Places {
 public:
  // How long a new connection waits for the place of another.
  static constexpr Duration patience = milliseconds(20);

  // `most` places; 0: no end of them. The lanes outlive this.
  Places(std::uint32_t most, const Lanes& lanes) : most_(most), lanes_(lanes) {}

  bool limited() const { return most_ > 0; }
  std::uint32_t taken() const { return taken_; }
  bool over() const { return limited() && taken_ > most_; }

  // Whether the connection that a peer asks for may begin now: there is a place, or `patience` is
  // over.
  bool may_begin(Time now) { return !limited() || may(taken_ < most_, full_since_, now); }
  // The same for one that we ask for, beside `asking` others.
  bool may_ask(Time now, std::uint32_t asking) {
    const bool has_room = taken_ < most_ && asking < std::max(1u, most_ / 2);
    return !limited() || may(has_room, crowded_since_, now);
  }
  // A connection begins; `ours`: we ask for it. The next one without room waits `patience` anew.
  void take(bool ours) {
    ++taken_;
    (ours ? crowded_since_ : full_since_) = Time::never();
  }
  void give() { --taken_; }

  // How many connections should be asked to part, if `waiting` others want a place and `leaving`
  // connections are about to end.
  std::uint32_t lacking(std::uint32_t waiting, std::uint32_t leaving) const {
    const std::uint32_t kept = taken_ - std::min(taken_, leaving);
    return limited() && kept + waiting > most_ ? std::min(kept, kept + waiting - most_) : 0;
  }

  // The peer's connection is ready (add), or no longer (remove).
  void add(Peer& peer) {
    if (limited()) round_.push(&peer);
  }
  void remove(Peer& peer) {
    if (peer.round.linked) round_.remove(&peer);
  }

  // The next peer in the round that was not used since the last look at it and `parts(peer)`;
  // nullptr if there is none in two rounds, or among those that one call looks at.
  template <typename Parts>
  Peer* next_unused(Parts&& parts) {
    for (std::size_t looks = std::min(2 * round_.size(), most_looks); looks > 0; --looks) {
      Peer* const peer = round_.pop();
      round_.push(peer);
      const std::uint64_t use = use_of(*peer);
      if (std::exchange(peer->seen_use, use) == use && parts(*peer)) return peer;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t most_looks = 64;

  static bool may(bool has_room, Time& waits_since, Time now) {
    if (has_room) {
      waits_since = Time::never();
    } else if (waits_since == Time::never()) {
      waits_since = now;
    }
    return has_room || now - waits_since >= patience;
  }

  // Moves whenever anything goes to the peer or a frame comes from it.
  std::uint64_t use_of(const Peer& peer) const {
    const Lane& frames = lanes_[peer.connection.lane()];
    const LaneId fetches = peer.fetch_lane.lane();
    return frames.queue.posted() + frames.rx_sequence + 1 +
           (fetches == LaneId::none ? 0 : lanes_[fetches].queue.posted());
  }

  const std::uint32_t most_;
  const Lanes& lanes_;
  std::uint32_t taken_ = 0;
  Time full_since_ = Time::never();     // a request of a peer waits since then
  Time crowded_since_ = Time::never();  // one of ours does
  List<Peer, &Peer::round> round_;
};

}  // namespace weir
