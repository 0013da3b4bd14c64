// The connections of a process: each is made once, at the first message from either side, and ends
// with a goodbye or by failure.
//
// A peer has at most one connection, made or asked for, and only its lanes carry anything. A peer
// that is given up is reported once. Every wait ends: an attempt is repeated after
// `attempt_timeout`, or after twice the time of an attempt that nobody answered, because the answer
// may take long. The peer is given up after `connect_timeout`. Many processes that ask one process
// at the same time ask again at different times.
//
// Pure; the caller serialises. A new peer, an attempt and new lanes allocate. A deadline costs the
// same with few peers and many.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "transport/base/counters.h"
#include "transport/base/now.h"
#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/core/config.h"
#include "transport/core/lanes.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/receiver.h"
#include "transport/core/sender.h"

namespace weir {

class Connector {
 public:
  class Listener {
   public:
    // Frames for the peer wait, or transfers with it are not over.
    virtual bool has_work(const Peer& peer) const = 0;
    virtual void on_ready(const Now& now, Peer& peer, Outbox& out) = 0;
    // The lane for frames is about to be released; the peer's other lanes have to go before it.
    virtual void on_lane_ends(Peer& peer, Outbox& out) = 0;
    // The peer was given up, or was left: nothing goes to it or comes from it any more.
    virtual void on_gone(const Now& now, Peer& peer, Outbox& out) = 0;

   protected:
    ~Listener() = default;
  };

  // All arguments outlive this object.
  Connector(const CoreConfig& config, Counters& counters, Peers& peers, Lanes& lanes,
            Receiver& receiver, Sender& sender, Listener& listener)
      : config_(config),
        counters_(counters),
        peers_(peers),
        lanes_(lanes),
        receiver_(receiver),
        sender_(sender),
        listener_(listener) {}

  void set_card(Peer& peer, const wire::Card& card) { peer.connection.card_ = card; }

  // ---- making them ----

  // Asks an idle peer for a connection.
  [[gnu::noinline]] void connect(const Now& now, Peer& peer, Outbox& out);
  void on_request(const Now& now, RequestId request, const wire::Hello& hello, Outbox& out);
  void on_answer(const Now& now, LaneId lane, const wire::Hello& hello, Outbox& out);
  void on_established(const Now& now, LaneId lane, Outbox& out);
  void on_rejected(const Now& now, LaneId lane, wire::Reject reason, Outbox& out);
  void on_connect_failed(const Now& now, LaneId lane, FailReason reason, Outbox& out);
  // A frame came on a lane that the peer has not confirmed yet: it overtook the confirmation.
  void on_first_frame(const Now& now, Peer& peer, Outbox& out) {
    if (peer.connection.state() == PeerState::accepting) become_ready(now, peer, out);
  }

  // ---- ending them ----

  // The peer's goodbye arrived: from here on errors on its lane are no failures.
  void on_goodbye(Peer& peer) { peer.connection.left_ = true; }
  void on_disconnected(const Now& now, LaneId lane, Outbox& out);
  void on_lane_error(const Now& now, LaneId lane, Outbox& out);
  // A work request on one of the peer's lanes completed with an error. It was a part of `request`,
  // if that names a peer.
  void on_bad_completion(const Now& now, Peer& peer, CompletionStatus status,
                         const TransferRequest& request, Outbox& out);

  // Gives the peer up.
  [[gnu::noinline]] void fail(const Now& now, Peer& peer, const Failure& why, Outbox& out);
  void fail(const Now& now, Peer& peer, FailReason reason, CompletionStatus completion,
            Outbox& out) {
    fail(now, peer, Failure{peer.id, reason, completion, {}, {}}, out);
  }
  void fail(const Now& now, Peer& peer, FailReason reason, Outbox& out) {
    fail(now, peer, reason, CompletionStatus::success, out);
  }

  // Leaves the peer: pending frames go out, then a goodbye; then the lane is released. Call again
  // until the peer is `closed`.
  void close(const Now& now, Peer& peer, Outbox& out);
  // Something that closing waited for is over.
  void go_on_closing(const Now& now, Peer& peer, Outbox& out) {
    if (peer.connection.state() == PeerState::closing) try_finish_close(now, peer, out);
  }
  // Stops waiting for the end of `close`.
  void abandon(const Now& now, Peer& peer, Outbox& out);
  static bool is_closed(const Peer& peer) {
    return peer.connection.is_idle() || peer.connection.state() == PeerState::failed;
  }

  // ---- time ----

  Time next_deadline() const { return due_.empty() ? Time::never() : due_.begin()->first; }
  void on_timer(const Now& now, Outbox& out);
  // How many connections are asked for and not settled.
  std::uint32_t pending() const { return pending_; }

 private:
  void move_to(Peer& peer, PeerState state);
  void set_deadline(Peer& peer, Time deadline);
  void keep_due(Peer& peer);
  void ask(const Now& now, Peer& peer, Outbox& out);
  Time deadline_of_attempt(const Now& now, const Peer& peer) const;
  // The peer of an open lane, or nullptr.
  Peer* peer_of(LaneId lane) {
    const Lane* const open = lanes_.open(lane);
    return open != nullptr ? &peers_[open->peer] : nullptr;
  }
  wire::Hello hello_to(Peer& peer, Outbox& out);
  void agree_on_fetches(Peer& peer, std::uint32_t answered);
  [[gnu::noinline]] void become_ready(const Now& now, Peer& peer, Outbox& out);
  void give_up_attempt(const Now& now, Peer& peer, Outbox& out);
  void retry_or_fail(const Now& now, Peer& peer, FailReason reason, Outbox& out);
  void retry(const Now& now, Peer& peer, Outbox& out);
  void drop_lane(Peer& peer, Outbox& out);
  void try_finish_close(const Now& now, Peer& peer, Outbox& out);
  [[gnu::noinline]] void finish_close(const Now& now, Peer& peer, Outbox& out);
  void end_session(Peer& peer);

  const CoreConfig& config_;
  Counters& counters_;
  Peers& peers_;
  Lanes& lanes_;
  Receiver& receiver_;
  Sender& sender_;
  Listener& listener_;
  std::uint32_t pending_ = 0;
  std::set<std::pair<Time, PeerId>> due_;  // deadlines of attempts that are pending
};

}  // namespace weir
