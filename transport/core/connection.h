// The state of the connection to one peer and of the request for it. Only the connector changes it;
// the states and their edges are in transport/lane/peer_state.h.
//
// A value; the caller serialises.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "transport/core/outbox.h"
#include "transport/lane/peer_state.h"
#include "transport/wire/hello.h"

namespace weir {

class Connection {
 public:
  Connection() = default;
  explicit Connection(std::uint32_t first_frame) : received_(first_frame), sent_(first_frame) {}

  PeerState state() const { return state_; }
  // Frames flow. (What is asked for each message is one comparison.)
  bool is_ready() const { return state_ >= PeerState::ready; }
  // One side has asked, or is about to, and the request is not settled.
  bool is_pending() const { return pending.has(state_); }
  // The connection broke, and the next one takes up its session.
  bool is_resuming() const { return is_in_session() && is_pending(); }
  // Pending frames may be posted.
  bool is_open() const { return state_ >= PeerState::closing; }
  // The peer takes nothing more from us: it was given up, or we leave it.
  bool is_over() const { return state_ >= PeerState::failed && state_ <= PeerState::said; }
  // The connection is about to end because it is idle, and later frames wait for the next one.
  bool is_leaving() const { return state_ == PeerState::parting || state_ == PeerState::parted; }
  // We have asked for a connection that begins a session: nothing of that was sent.
  bool begins() const {
    return !is_in_session() && (state_ == PeerState::connecting || state_ == PeerState::waiting);
  }
  // There is no connection, and one may be made.
  bool is_idle() const { return state_ <= PeerState::closed; }

  // The session is not taken up for now: its frames may go over another rail.
  bool is_held() const { return state_ == PeerState::held; }
  // The session's frames went over another rail. Later ones do, too, until there is a connection.
  bool has_moved() const { return moved_; }

  // The peer's goodbye arrived, or both agreed to part: it sends nothing more.
  bool left() const { return departed.has(state_); }
  // The peer waits for our answer whether the connection may end.
  bool asked_to_part() const { return asked_to_part_; }
  // The lane for frames; none while no connection is made or asked for.
  LaneId lane() const { return lane_; }
  // The most reads and atomics outstanding on a queue pair to the peer, as both ends agreed.
  std::uint32_t most_fetches() const { return most_fetches_; }
  // Frames of the session that had arrived when its last connection broke.
  std::uint32_t received() const { return received_; }
  // The same for the last session, if it is over and the peer may not know.
  std::optional<std::uint32_t> received_before_end() const {
    return session_ == Session::over ? std::optional(ended_at_) : std::nullopt;
  }
  // Where the peer listens, and its key; port 0 if unknown.
  const wire::Card& card() const { return card_; }
  const wire::Key& key() const { return card_.key; }

 private:
  friend class Connector;

  static constexpr PeerStates pending = PeerState::connecting | PeerState::waiting |
                                        PeerState::accepting | PeerState::held | any_broken;
  static constexpr PeerStates departed =
      PeerState::left | PeerState::parted | PeerState::broken_part | PeerState::broken_leave;
  // In a session, frames are numbered on from one connection to the next.
  enum class Session : std::uint8_t {
    none,  // nor does the peer know of one
    open,  // there was a connection, and its frames are to be delivered
    over,  // there was one, and the peer may not know that it is over
  };
  bool is_in_session() const { return session_ == Session::open; }

  PeerState state_ = PeerState::idle;
  PeerState broke_in_ = PeerState::ready;  // what it was doing when its connection broke
  Session session_ = Session::none;
  // Facts, which no state depends on.
  bool asked_to_part_ = false;  // the peer's question waits for our answer
  bool wanted_ahead_ = false;   // asked for, though nothing goes to the peer yet
  bool is_out_ = false;         // it is counted as broken and not made again yet
  bool moved_ = false;          // frames go over another rail
  Time stays_until_{};          // the peer wanted to stay: ask it no earlier
  LaneId lane_ = LaneId::none;
  std::uint32_t most_fetches_ = 1;
  wire::Card card_{};
  std::uint8_t futile_ = 0;     // connections in a row that broke before anything went over them
  std::uint32_t received_ = 0;  // frames of the session, when its connection broke
  std::uint32_t sent_ = 0;      // the same for our frames; the number of the next one
  std::uint32_t told_ = 0;      // frames that the peer has received, by the request we accepted
  std::uint32_t ended_at_ = 0;  // frames that had arrived when the last session ended
  std::unique_ptr<Failure> noted_;       // reported once the lane is fenced
  FailReason broke_ = FailReason::none;  // why the connection broke
  CompletionStatus broke_with_ = CompletionStatus::success;
  std::uint64_t attempt_ = 0;       // number of our last request
  std::uint64_t attempt_seen_ = 0;  // number of the peer's last request that we accepted
  Time since_{};                    // when the first attempt at this connection began
  std::uint32_t silences_ = 0;      // attempts since then that nobody answered
  std::uint8_t vain_holds_ = 0;  // how often a hold in vain has doubled the next one since it broke
  Time attempt_deadline_ = Time::never();
  Time due_ = Time::never();  // its place in the connector's list of deadlines; never: none
  FailReason trouble_ = FailReason::connect_timeout;  // why this attempt ended before the deadline
};

}  // namespace weir
