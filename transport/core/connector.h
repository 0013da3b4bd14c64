// The connections of a process: each is made at the first message from either side, and ends with a
// goodbye or by failure. One that is idle ends when another needs its place (places.h), and is made
// again at the next message.
//
// A peer has at most one connection, made or asked for, and only its lanes carry anything. A peer
// that is given up is reported once. That is for good, but `among_rails` it may be asked again.
// Every wait ends: an attempt is repeated after `attempt_timeout`. After an attempt that nobody
// answered, the next gets twice its time, because the answer may take long. The peer is given up
// after `connect_timeout`. Many processes that ask one process at the same time ask again at
// different times.
//
// A connection parts when both sides have nothing under way: one asks, and posts nothing until the
// other answers with a goodbye, or wants to stay. The asker's frames have arrived before its
// question. The other's frames have arrived before its goodbye, and the asker has seen the goodbye
// if it disconnects. So both sides know that everything was delivered. If the lane breaks first,
// the session goes on, unless the asker had the goodbye.
//
// A session outlives its connection. A connection may break in a way that says nothing of the peer,
// mostly by an outage. Then both sides fence their end: the queue pair is destroyed, and its
// earlier completions are handed over. One side asks for the next connection, and both tell how
// many frames they have received. The frames that the other lacks are sent again, before all
// others. So a frame is delivered once, and a chunk of a put is written again only when nothing of
// the first attempt can arrive any more. After `peer_timeout` without a connection the peer is
// given up. Among rails, the frames that the other lacks may go over another rail instead.
//
// What happens in which state is a table (connector_table.h); each event is looked up there.
//
// Pure; the caller serialises. A new peer, an attempt and new lanes allocate. A deadline costs the
// same with few peers and many.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "base/counters.h"
#include "base/now.h"
#include "base/status.h"
#include "base/time.h"
#include "transport/core/config.h"
#include "transport/core/connector_table.h"
#include "transport/core/lanes.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/places.h"
#include "transport/core/receiver.h"
#include "transport/core/sender.h"

namespace weir {

class Connector {
 public:
  class Listener {
   public:
    // Frames for the peer wait, or transfers with it are not over.
    virtual bool has_work(const Peer& peer) const = 0;
    // Nothing needs the connection any more.
    virtual bool may_part(const Peer& peer) const = 0;
    // Says what kind of transfers are lost with the peer.
    virtual void describe_transfers(const Peer& peer, Failure& failure) const = 0;
    // The lane for frames broke, and is about to be fenced; the peer's other lanes go before it.
    virtual void on_broken(Peer& peer, Outbox& out) = 0;
    // A frame that was in doubt has arrived, or is not sent again.
    virtual void on_settled(SendSlot* slot, bool delivered, Outbox& out) = 0;
    // The connection takes nothing until it is ready again.
    virtual void on_paused(Peer& peer) = 0;
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
        listener_(listener),
        places_(config.connections_max, lanes) {}

  void set_card(Peer& peer, const wire::Card& card) { peer.connection.card_ = card; }

  // ---- making them ----

  // Asks an idle peer for a connection, once there is a place for it.
  [[gnu::noinline]] void connect(const Now& now, Peer& peer, Outbox& out) {
    on(Event::wanted, now, peer, out);
  }
  // The same for a peer that nothing goes to yet.
  void connect_ahead(const Now& now, Peer& peer, Outbox& out) {
    if (peer.connection.is_idle()) peer.connection.wanted_ahead_ = true;
    connect(now, peer, out);
  }
  // As in core.h: it is from a stranger, or its version or buffers do not fit.
  std::optional<wire::Reject> refusal(const wire::Hello& hello) const;
  // Whether the request, one of `waiting`, may be answered now. If not, makes room for its
  // connection.
  bool may_take_request(const Now& now, const wire::Hello& hello, std::uint32_t waiting,
                        Outbox& out);
  // A waiting request left without that: at most so many wait for a place.
  void note_requests(std::uint32_t waiting) {
    requests_waiting_ = std::min(requests_waiting_, waiting);
  }
  // The peer asks anew, so its earlier connection is broken, even if we have not noticed. Carry out
  // the box before `on_request`.
  void make_way(const Now& now, const wire::Hello& hello, Outbox& out);
  void on_request(const Now& now, RequestId request, const wire::Hello& hello, Outbox& out);
  void on_answer(const Now& now, LaneId lane, const wire::Hello& hello, Outbox& out);
  void on_established(const Now& now, LaneId lane, Outbox& out);
  void on_rejected(const Now& now, LaneId lane, wire::Reject reason, Outbox& out);
  void on_connect_failed(const Now& now, LaneId lane, FailReason reason, Outbox& out);
  // A frame came on a lane that the peer has not confirmed yet: it overtook the confirmation.
  void on_first_frame(const Now& now, Peer& peer, Outbox& out) {
    if (peer.connection.state() == PeerState::accepting) on(Event::first_frame, now, peer, out);
  }

  // ---- ending them ----

  // The peer asks whether the connection may end. False if it has asked, and has no answer yet.
  bool on_part(const Now& now, Peer& peer, Outbox& out) {
    if (std::exchange(peer.connection.asked_to_part_, true)) return false;
    return on(Event::part, now, peer, out);
  }
  // Call again while the peer `asked_to_part`: the answer may have found no slot.
  void answer_part(const Now& now, Peer& peer, Outbox& out) { on(Event::part, now, peer, out); }
  // The peer does not want to part. False if it was not asked.
  bool on_stay(const Now& now, Peer& peer, Outbox& out) { return on(Event::stay, now, peer, out); }
  // The peer's goodbye arrived: from here on errors on its lane are no failures.
  void on_goodbye(const Now& now, Peer& peer, Outbox& out) { on(Event::goodbye, now, peer, out); }
  void on_disconnected(const Now& now, LaneId lane, Outbox& out);
  void on_lane_error(const Now& now, LaneId lane, Outbox& out);
  // Whether the path or the queue pair may have caused the error, rather than the work request.
  bool may_be_the_way(CompletionStatus status) const;
  // A work request on one of the peer's lanes completed with an error. It was a part of `request`,
  // if that names a peer.
  [[gnu::cold, gnu::noinline]] void on_bad_completion(const Now& now, Peer& peer,
                                                      CompletionStatus status,
                                                      const TransferRequest& request, Outbox& out);

  // The lane makes no progress, or is gone. The session goes on over another lane, or the peer is
  // given up.
  void on_lane_lost(const Now& now, Peer& peer, const Failure& why, Outbox& out) {
    on(Event::broke, now, peer, out, {.reason = FailReason::connect_spoilt, .why = &why});
  }
  // The broken lane is destroyed, and its work under way is in doubt. `sound`: all of this work may
  // be done once more.
  void on_fenced(const Now& now, Peer& peer, const Lane& lane, bool sound, Outbox& out);

  // ---- carrying frames over another rail ----

  // As in core.h.
  bool hold(const Now& now, Peer& peer, bool even_if_ready, Outbox& out);
  bool give_away(const Now& now, Peer& peer, std::uint32_t received, Outbox& out) {
    return on(Event::give_away, now, peer, out, {.received = received});
  }
  void let_go(const Now& now, Peer& peer, Outbox& out) { on(Event::let_go, now, peer, out); }

  // Gives the peer up.
  void fail(const Now& now, Peer& peer, const Failure& why, Outbox& out) {
    on(Event::fail, now, peer, out, {.why = &why});
  }
  void fail(const Now& now, Peer& peer, FailReason reason, CompletionStatus completion,
            Outbox& out) {
    fail(now, peer, Failure{peer.id, reason, completion, {}, {}}, out);
  }
  void fail(const Now& now, Peer& peer, FailReason reason, Outbox& out) {
    fail(now, peer, reason, CompletionStatus::success, out);
  }

  // Leaves the peer: pending frames go out, then a goodbye; then the lane is released. Call again
  // until the peer is `closed`.
  void close(const Now& now, Peer& peer, Outbox& out) { on(Event::close, now, peer, out); }
  // Something that parting or closing waited for is over.
  void go_on_ending(const Now& now, Peer& peer, Outbox& out) { on(Event::went_on, now, peer, out); }
  // Stops waiting for the end of `close`.
  void abandon(const Now& now, Peer& peer, Outbox& out) { on(Event::abandon, now, peer, out); }
  static bool is_closed(const Peer& peer) {
    return (peer.connection.is_idle() && !peer.wants.linked) ||
           peer.connection.state() == PeerState::failed;
  }

  // ---- time ----

  Time next_deadline() const {
    const Time due = due_.empty() ? Time::never() : due_.begin()->first;
    return wants_places() ? std::min(due, next_look_) : due;
  }
  void on_timer(const Now& now, Outbox& out);
  // How many connections are asked for and not settled.
  std::uint32_t pending() const { return pending_; }
  // How many are about to part.
  std::uint32_t leaving() const { return leaving_; }

  // Which rules of the table were ever taken: for tests.
  const std::array<bool, connection_table::count>& taken() const { return taken_; }

 private:
  using Event = ConnectionEvent;
  // What is known beside an event; most events have little.
  struct Details {
    FailReason reason = FailReason::none;  // for which an attempt ends
    const Failure* why = nullptr;
    const wire::Hello* hello = nullptr;
    RequestId request{};
    std::uint32_t received = 0;
  };

  // Looks the event up and does what the table says. False if it is out of turn.
  [[gnu::cold, gnu::noinline]] bool on(Event event, const Now& now, Peer& peer, Outbox& out,
                                       const Details& details);
  bool on(Event event, const Now& now, Peer& peer, Outbox& out) {
    return on(event, now, peer, out, Details{});
  }

  // ---- what all share: connector.cc ----
  void move_to(Peer& peer, PeerState state);
  void set_deadline(Peer& peer, Time deadline);
  void keep_due(Peer& peer);
  void keep_place(Peer& peer, PeerState before);
  // The peer of an open lane, or nullptr.
  Peer* peer_of(LaneId lane) {
    const Lane* const open = lanes_.open(lane);
    return open != nullptr ? &peers_[open->peer] : nullptr;
  }
  // Reports to the layer above, if there are other rails.
  void tell(const Peer& peer, LinkNews::Kind kind, Outbox& out,
            FailReason reason = FailReason::none) {
    if (config_.among_rails) out.report(LinkNews{.peer = peer.id, .kind = kind, .reason = reason});
  }
  void give_up(const Now& now, Peer& peer, const Failure& why, Outbox& out);
  void give_up(const Now& now, Peer& peer, FailReason reason, Outbox& out) {
    give_up(now, peer, Failure{peer.id, reason, CompletionStatus::success, {}, {}}, out);
  }

  // ---- attempts ----
  void seek_place(const Now& now, Peer& peer, Outbox& out);
  void begin(const Now& now, Peer& peer, Outbox& out);
  void ask(const Now& now, Peer& peer, Outbox& out);
  Time deadline_of_attempt(const Now& now, const Peer& peer) const;
  wire::Hello hello_to(Peer& peer, Outbox& out);
  LaneId make_lane(Peer& peer);
  void agree_on_fetches(Peer& peer, std::uint32_t answered);
  Duration patience_with(const Peer& peer) const {
    return peer.connection.is_in_session() ? config_.peer_timeout : config_.connect_timeout;
  }
  bool has_no_time_left(const Now& now, const Peer& peer) const {
    return now - peer.connection.since_ >= patience_with(peer);
  }
  bool is_over_for(const Connection& connection, const wire::Hello& hello) const;
  bool is_stale(const Peer& peer, const wire::Hello& hello) const;
  Event kind_of(const Peer& peer, const wire::Hello& hello) const;
  void accept(const Now& now, Peer& peer, const Details& details, Outbox& out);
  void accept_after_leaving(const Now& now, Peer& peer, const Details& details, Outbox& out);
  void refuse(const Details& details, wire::Reject reason, Outbox& out);
  void take_answer(const Now& now, Peer& peer, const wire::Hello& hello, Outbox& out);
  void take_loop(const Now& now, Peer& peer, Outbox& out);
  void become_ready(const Now& now, Peer& peer, Outbox& out);
  void wait(Peer& peer, Outbox& out);
  void wait_a_while(const Now& now, Peer& peer);
  void try_again(const Now& now, Peer& peer, FailReason reason, Outbox& out);
  void try_in_turn(const Now& now, Peer& peer, Outbox& out);
  void retry(const Now& now, Peer& peer, Outbox& out);

  // ---- sessions ----
  static bool is_unknown_session(const Connection& connection);
  bool settle(Peer& peer, std::uint32_t received, Outbox& out);
  bool may_resume(const Peer& peer, CompletionStatus status) const;
  static bool said_goodbye(const Peer& peer);
  bool give_up_session(Peer& peer, Outbox& out);
  bool may_be_held(const Now& now, const Connection& connection, bool asked) const;
  Duration silence_before(const Failure& why) const;
  void hear_it_is_over(const Now& now, Peer& peer, Outbox& out);
  void give_way(const Now& now, Peer& peer, Outbox& out);
  void lose_lane(const Now& now, Peer& peer, const Failure& why, Outbox& out);
  void fence_broken(const Now& now, Peer& peer, const Failure& why, PeerState then, Outbox& out);
  void fence_unconfirmed(Peer& peer, PeerState then, Outbox& out);
  void fence(Peer& peer, PeerState then, Outbox& out);
  void drop_lane(Peer& peer, Outbox& out, bool delivered = false);
  Duration longest_hold(const Peer& peer) const;
  Time deadline_of_hold(const Now& now, const Peer& peer) const;
  void stay_held(const Now& now, Peer& peer);
  bool hold_lane(const Now& now, Peer& peer, Outbox& out);
  void hold_attempt(const Now& now, Peer& peer, Outbox& out);
  void hold_in_vain(const Now& now, Peer& peer, Outbox& out);
  bool give_frames_away(const Now& now, Peer& peer, std::uint32_t received, Outbox& out);
  void void_credits(Peer& peer);
  void end_session(Peer& peer);

  // ---- parting ----
  bool wants_places() const { return !wants_.empty() || requests_waiting_ > 0 || places_.over(); }
  void begin_waiting(const Now& now, Outbox& out);
  void make_room(const Now& now, Outbox& out);
  bool is_drained(const Peer& peer) const { return lanes_[peer.connection.lane_].queue.empty(); }
  void part(const Now& now, Peer& peer, Outbox& out);
  void part_as_both_ask(const Now& now, Peer& peer, Outbox& out);
  void agree_to_part(Peer& peer, Outbox& out);
  void stay(const Now& now, Peer& peer, Outbox& out);
  void leave(const Now& now, Peer& peer, Outbox& out);
  void say_goodbye(const Now& now, Peer& peer, Outbox& out);
  void finish(const Now& now, Peer& peer, Outbox& out);

  const CoreConfig& config_;
  Counters& counters_;
  Peers& peers_;
  Lanes& lanes_;
  Receiver& receiver_;
  Sender& sender_;
  Listener& listener_;
  Places places_;
  List<Peer, &Peer::wants> wants_;      // oldest first
  std::uint32_t requests_waiting_ = 0;  // for a place, as the driver last said
  std::uint32_t leaving_ = 0;           // peers that are about to part
  Time none_before_{};                  // nobody could part, so nobody is asked before this
  Time next_look_{};                    // when to ask again
  std::uint32_t out_ = 0;               // peers whose connections broke and are not made again yet
  Time out_since_{};                    // when the first of them broke
  std::uint32_t pending_ = 0;
  std::uint32_t asking_ = 0;               // peers that we ask
  std::set<std::pair<Time, PeerId>> due_;  // deadlines of pending attempts
  std::array<bool, connection_table::count> taken_{};
};

}  // namespace weir
