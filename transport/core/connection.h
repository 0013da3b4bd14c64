// Where the connection to one peer stands, and what asking for it takes. The connector alone
// changes it; the states and their edges are in transport/lane/peer_state.h.
//
// A value; the caller serialises.
#pragma once

#include <cstdint>

#include "transport/base/ids.h"
#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/lane/peer_state.h"
#include "transport/wire/hello.h"

namespace weir {

class Connection {
 public:
  PeerState state() const { return state_; }
  bool is_ready() const { return state_ == PeerState::ready; }
  // Somebody has asked, and it is not settled.
  bool is_pending() const {
    return state_ == PeerState::connecting || state_ == PeerState::accepting;
  }
  // Frames that wait may be posted.
  bool is_open() const { return is_ready() || state_ == PeerState::closing; }
  // The peer takes nothing more from us: it was given up, or we leave it.
  bool is_over() const { return state_ == PeerState::failed || state_ == PeerState::closing; }
  // There is none, and one may be made.
  bool is_idle() const { return state_ == PeerState::idle || state_ == PeerState::closed; }

  // The peer's goodbye arrived: it sends nothing more.
  bool left() const { return left_; }
  // For frames; none while there is no connection, made or asked for.
  LaneId lane() const { return lane_; }
  // Reads and atomics that a queue pair to the peer has under way at most, as both ends agreed.
  std::uint32_t most_fetches() const { return most_fetches_; }
  // Where the peer listens, and its key; port 0 if that is not known.
  const wire::Card& card() const { return card_; }
  const wire::Key& key() const { return card_.key; }

 private:
  friend class Connector;

  PeerState state_ = PeerState::idle;
  bool left_ = false;
  bool goodbye_sent_ = false;
  LaneId lane_ = LaneId::none;
  std::uint32_t most_fetches_ = 1;
  wire::Card card_{};
  std::uint64_t attempt_ = 0;       // of our last request
  std::uint64_t attempt_seen_ = 0;  // of the last request of the peer that we accepted
  Time since_{};                    // the first attempt of the connection that is asked for
  std::uint32_t silences_ = 0;      // attempts since then that nobody answered
  Time attempt_deadline_ = Time::never();
  FailReason trouble_ = FailReason::connect_timeout;  // why this attempt is over before that
};

}  // namespace weir
