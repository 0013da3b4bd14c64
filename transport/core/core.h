// The protocol core: one object for all peers of one process on one device port.
//
// Sans-I/O. Every step takes its time and an Outbox, never blocks, and puts the work it wants done
// into the box as values. The verbs engine and the simulator drive the same object. It owns no
// memory that the adapter sees, and knows no clock, thread, lock or system call. New peers,
// connection attempts, lanes and slabs allocate, and so do transfers beyond the most so far. The
// eager path does not.
//
// It decides nothing: each part owns its state and has its invariant in its header. The core passes
// events and reports on to the parts that need them. README.md has the map.
//
// Thread rule: the caller serialises all calls.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/counters.h"
#include "base/now.h"
#include "base/peer_row.h"
#include "base/time.h"
#include "flowctl/shared/proxy.h"
#include "transport/core/arrival.h"
#include "transport/core/config.h"
#include "transport/core/connector.h"
#include "transport/core/lanes.h"
#include "transport/core/node_gate.h"
#include "transport/core/node_line.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/receiver.h"
#include "transport/core/relay_server.h"
#include "transport/core/relay_task.h"
#include "transport/core/relayed_arrivals.h"
#include "transport/core/sender.h"
#include "transport/core/transfers.h"
#include "transport/core/watch.h"

namespace weir {

class Core : private Lanes::Listener,
             private Receiver::Listener,
             private Sender::Listener,
             private Connector::Listener {
 public:
  using Config = CoreConfig;

  explicit Core(const Config& config);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // ---- start ----

  // Asks for the first receive buffers. Call once, before the first connection.
  void start(Outbox& out) { receiver_.start(out); }

  // From here on, shares the request tokens and the read budget with the other processes of the
  // node. Either pool may be nullptr; the pools outlive this.
  void join_node(PoolMember::Pool* requests, PoolMember::Pool* reads) {
    node_line_.join(requests);
    transfers_.join_node(reads);
  }

  // From here on frames may go through a server of the node, or this process may be a server.
  // `ground` outlives this; `config.proxy` must be set. With `cells_lkey` the adapter may send from
  // the proxy's cells.
  void join_proxy(const ProxyGround& ground, std::uint32_t slot, ProcessId self,
                  std::optional<std::uint32_t> cells_lkey = std::nullopt);
  // A slot with room for a full frame, for relaying. The core keeps it for good.
  void lend_relay_slot(SendSlot* slot) { relay_server_.lend_slot(slot); }
  static constexpr std::size_t most_relay_slots = RelayServer::most_slots;
  std::size_t idle_relay_slots() const { return relay_server_.idle_slots(); }

  // Finds or makes the record of a process; the card says where the process listens. Allocates for
  // a new process.
  PeerId add_peer(PeerName name, const wire::Card& card = {}) {
    Peer& peer = peers_.find_or_make(name);
    connector_.set_card(peer, card);
    return peer.id;
  }
  // None if the name is not known.
  PeerId find(PeerName name) const { return peers_.find(name); }
  const wire::Card& card(PeerId peer) const { return peers_[peer].connection.card(); }
  // The record that the layer above keeps of a peer. Each delivery carries it.
  void set_above(PeerId peer, void* record) { peers_[peer].above = record; }
  void* above(PeerId peer) const { return peers_[peer].above; }

  // How many processes may connect; bounds what each can be granted. Rises, never falls.
  void expect_peers(std::uint32_t count) {
    const std::uint32_t most = config_.connections_max;
    receiver_.expect_peers(most > 0 ? std::min(count, most) : count);
  }

  // The shared receive queue is about to be made: returns how many receives it must hold. Call
  // expect_peers first.
  std::uint32_t settle_receive_queue() { return receiver_.settle_queue(); }

  // A slot (of at least frame_header_bytes) for control frames. The core keeps it for good. While
  // the core lacks slots, lend one before a ConnectAction is carried out.
  void lend_control_slot(SendSlot* slot) { sender_.lend_control_slot(slot); }
  std::size_t idle_control_slots() const { return sender_.idle_control_slots(); }
  bool lacks_control_slots() const { return sender_.lacks_control_slots(); }

  // The device can post no more than this inline. Holds from now on, also for existing lanes.
  void limit_inline(std::uint32_t bytes) {
    config_.inline_bytes = std::min(config_.inline_bytes, bytes);
  }

  // Other limits from here on. What exceeds them goes back as it ends.
  void limit(const Now& now, const CoreLimits& limits, Outbox& out);
  // No W_max can be larger.
  std::uint32_t window_depth() const { return receiver_.window_depth(); }

  // ---- eager path ----

  // Sends the one message of `length_bytes` at slot->payload(). On `ok` the core owns the slot
  // until it appears in Outbox::retired; otherwise the caller keeps it. Never reports
  // back-pressure when `must_take`.
  Status send(const Now& now, PeerId peer, SendSlot* slot, std::uint32_t length_bytes,
              std::uint8_t tag, bool must_take, Outbox& out);

  // Takes a frame of messages that another rail could not deliver; else as `send`.
  Status send_frame(const Now& now, PeerId peer, SendSlot* slot, Outbox& out);

  // As in sender.h.
  bool wants_trains() const { return sender_.wants_trains(); }
  Status admit_train(PeerId peer) { return sender_.admit_train(peers_[peer]); }
  void send_car(const Now& now, PeerId peer, SendSlot* slot, std::uint32_t length_bytes,
                bool is_last, Outbox& out);
  // Tells the peer whether it may send us trains from now on.
  void let_train(PeerId peer, bool may, Outbox& out) { sender_.let_train(peers_[peer], may, out); }

  // Room for a small message in a frame to `peer` that has not left yet; if nullptr, use `send`.
  // The caller writes the payload there before its next call of the core.
  std::byte* append(PeerId peer, std::uint32_t length_bytes, std::uint8_t tag) {
    return sender_.append(peers_[peer], length_bytes, tag);
  }

  // Whether a small message sent now would wait in its frame: then bring a slot with room for a
  // bundle.
  bool would_hold(PeerId peer) const { return sender_.would_hold(peers_[peer]); }

  // Whether frames to `peer` wait.
  bool has_pending(PeerId peer) const { return peers_[peer].outgoing.has_pending(); }

  // The layer above is done with a delivered buffer (once for each delivery with `last`).
  void release(BufferId buffer) { receiver_.release(buffer); }

  // Posts what is held back: frames, and receive buffers once there are enough. Call after the
  // messages of a poll were handed up.
  void pump(const Now& now, Outbox& out);
  // Whether there is enough work for a pump.
  bool wants_pump() const { return sender_.has_held() || receiver_.wants_pump(); }
  // Frames wait to be bundled: the next pump posts them.
  bool has_held() const { return sender_.has_held(); }
  // Released buffers that may stay unposted; with more, a pump is worth its while.
  std::uint32_t release_slack() const { return receiver_.slack(); }

  // Gives credits back to peers that are low on them, in frames of their own. Call when the
  // application comes back for more: until then its own frames may have carried the credits.
  void give_back_credits(Outbox& out) { sender_.send_owed(out); }

  // The application makes progress: a new round begins, and its first frames go at once. (A pump
  // begins a round, too.)
  void begin_round() { sender_.begin_round(); }
  std::uint64_t round() const { return sender_.round(); }

  // Frames that wait to be bundled, for credits, or for a connection. While there are any, the
  // event thread looks after them if the application does not come back.
  std::uint64_t pending_frames() const { return sender_.pending_frames() + relay_task_.given(); }

  // Whether the event thread has to look after this if the application does not come back. Frames
  // or transfers are not over, other processes of the node may wait for this one, or a connection
  // is about to part.
  bool needs_attendance() const {
    return pending_frames() > 0 || has_transfers() || holds_tokens() || waits_for_node() ||
           proxy_.serving() || connector_.leaving() > 0;
  }

  // ---- large messages and one-sided ----

  // Takes every get, put or atomic. Its end is reported in Outbox::transfers. Local and remote
  // memory stay registered until then.
  void transfer(const Now& now, const TransferRequest& request, Outbox& out);
  // Asks for a connection that nothing needs yet, if there is none.
  void connect(const Now& now, PeerId peer, Outbox& out) {
    connector_.connect_ahead(now, peers_[peer], out);
  }

  // Ends each transfer with `peer` that may be done over another rail, and is neither under way nor
  // in doubt, and calls `take(request)` for it.
  template <typename Take>
  void withdraw(const Now& now, PeerId peer, Outbox& out, Take&& take) {
    transfers_.withdraw(now, peers_[peer], out, take);
  }

  // Transfers are under way: their completions must be seen promptly, and with the time.
  bool has_transfers() const { return !transfers_.idle(); }
  std::uint64_t transfers_under_way() const { return transfers_.under_way(); }
  std::uint64_t chunks_under_way() const { return transfers_.chunks_under_way(); }
  // The most work requests that a lane for fetches has in its queue.
  std::uint32_t fetch_depth() const { return lanes_.fetch_depth(); }

  // ---- the node ----

  // Whether something waits for tokens of the node, or for a delay. If so, call `look_at_node` now
  // and then: it posts what can go.
  bool waits_for_node() const { return node_line_.waits() || transfers_.wait_for_node(); }
  [[gnu::noinline]] void look_at_node(const Now& now, Outbox& out);
  // Whether the adapter has requests whose tokens other processes may wait for.
  bool holds_tokens() const { return node_line_.holds_tokens(); }
  // The same, also for reads of the node's budget.
  bool has_what_others_wait_for() const { return holds_tokens() || transfers_.hold_node_reads(); }

  // ---- the node's proxy ----

  bool has_proxy() const { return proxy_.joined(); }
  // Handles the outcomes of frames given to servers, and serves others. Call it in every progress
  // call (`present`), and while attendance is needed but the application does not come.
  [[gnu::noinline]] void look_at_proxy(const Now& now, bool present, Outbox& out);
  // Frames are at a server. If they stay there long, the caller finds out which of the servers are
  // dead, reports them, and calls `look_at_proxy`.
  bool waits_for_server() const { return relay_task_.given() > 0 || relay_task_.jammed(); }
  std::array<ProcessId, 2> servers_waited_for() const {
    return {proxy_.other_server(), proxy_.server_of_oldest()};
  }
  void on_process_dead(ProcessId id) {
    relay_task_.on_process_dead(id);
    proxy_.reap(id);
  }
  // This process serves no more, and gives no frames to others.
  void leave_proxy() { relay_server_.leave(); }
  // For each frame of Outbox::relays_failed, once no adapter can send from it any more.
  void on_relay_failed(SendSlot* slot) { relay_server_.on_failed(slot); }
  // Cells of this process that are not in use, a bit for each; for tests and the simulator.
  std::uint32_t free_cells() const { return proxy_.free_cells(); }

  // ---- from the adapter ----

  void on_completion(const Now& now, const Completion& completion, Outbox& out) {
    if (completion.opcode == Opcode::receive) {
      on_receive_completion(now, completion, out);
    } else {
      on_send_completion(now, completion, out);
    }
  }
  // Everything that arrived was handled, and the application asks for more: the receiver is not the
  // bottleneck now.
  void on_idle(Outbox& out) { receiver_.on_idle(out); }
  void on_srq_limit(Outbox& out) { receiver_.on_srq_limit(out); }
  // Call with all completions seen: receives may have been few since then.
  void note_low_receives(Time since) { receiver_.note_low(since); }
  // True: they were. Then call `on_reposted` once receives are posted.
  bool receives_were_low() const { return receiver_.was_low(); }
  void on_reposted(Time now, Outbox& out) { receiver_.on_reposted(now, out); }
  // Looks, with all completions seen, for a limit event that should have come but was lost. Call
  // about once a second.
  void raise_lost_limit(Outbox& out) { receiver_.raise_lost_limit(out); }
  void on_slab(std::uint64_t address, std::uint32_t lkey, std::uint32_t count, Outbox& out) {
    receiver_.on_slab(address, lkey, count, out);
  }
  void on_slab_failed(Outbox& out) { receiver_.on_slab_failed(out); }
  // Our end of a lane for fetches was made, and connected if that was asked for; with qp_number 0
  // it was not made.
  void on_lane_end(const Now& now, LaneId lane, const wire::LaneEnd& ours, Outbox& out) {
    transfers_.fetch_lanes().on_made(now, lane, ours, out);
  }

  // ---- from connection management ----

  // Why the request is refused, if that depends on its hello alone: then it needs no turn.
  std::optional<wire::Reject> refusal(const wire::Hello& hello) const {
    return connector_.refusal(hello);
  }
  // Whether that request may be handled now, with so many waiting; if not, idle connections are
  // asked to part, and `next_deadline` says when to come again.
  bool may_take_request(const Now& now, const wire::Hello& hello, std::uint32_t waiting,
                        Outbox& out) {
    return connector_.may_take_request(now, hello, waiting, out);
  }
  // A waiting request left without `may_take_request`; so many are left.
  void note_requests(std::uint32_t waiting) { connector_.note_requests(waiting); }
  // Whether the connection to that process is about to end. Then its request has to wait, because
  // it may be older.
  bool is_leaving(PeerName name) const {
    const PeerId known = peers_.find(name);
    return known != PeerId::none && peers_[known].connection.is_leaving();
  }
  // The request may be for a session whose lane still has to be fenced: carry that out, then call
  // `on_request`.
  void make_way(const Now& now, const wire::Hello& hello, Outbox& out) {
    connector_.make_way(now, hello, out);
  }
  void on_request(const Now& now, RequestId request, const wire::Hello& hello, Outbox& out) {
    connector_.on_request(now, request, hello, out);
  }
  // Our request was answered and the queue pair is ready to send.
  void on_answer(const Now& now, LaneId lane, const wire::Hello& hello, Outbox& out) {
    connector_.on_answer(now, lane, hello, out);
  }
  // The peer confirmed a connection that we accepted; or a looped lane works.
  void on_established(const Now& now, LaneId lane, Outbox& out) {
    connector_.on_established(now, lane, out);
  }
  // weir on the other side refused our request.
  void on_rejected(const Now& now, LaneId lane, wire::Reject reason, Outbox& out) {
    connector_.on_rejected(now, lane, reason, out);
  }
  // The attempt failed below weir, or its queue pair could not be made.
  void on_connect_failed(const Now& now, LaneId lane, FailReason reason, Outbox& out) {
    connector_.on_connect_failed(now, lane, reason, out);
  }
  void on_disconnected(const Now& now, LaneId lane, Outbox& out) {
    connector_.on_disconnected(now, lane, out);
  }
  // The lane's queue pair broke (asynchronous event of the device).
  void on_lane_error(const Now& now, LaneId lane, Outbox& out) {
    const Lane* const open = lanes_.open(lane);
    if (open == nullptr) return;
    Peer& peer = peers_[open->peer];
    if (transfers_.leaves(now, peer, lane, CompletionStatus::fatal_err, out)) return;
    connector_.on_lane_error(now, lane, out);
  }
  // Our port went down. Among rails its lanes are lost at once, because others carry what they had;
  // else the adapter repeats until the port is back.
  void on_port_down(const Now& now, Outbox& out);
  // The process is dead, as the runtime says: its session is not taken up, and nobody waits for it.
  void give_up_dead(const Now& now, PeerId peer, Outbox& out) {
    connector_.fail(now, peers_[peer], FailReason::vanished, out);
  }
  // The adapter is broken: nobody can be reached any more.
  void give_up_all(const Now& now, Outbox& out);
  // A drop was carried out: nothing names the lane any more, so its id may be used again.
  void on_dropped(const Now& now, LaneId lane, Outbox& out);

  // ---- carrying frames over another rail ----
  //
  //   hold ──▶ both ends know what has arrived ──▶ give_away ──▶ let_go
  //     └──────────────────────────────────────────────────────▲

  // Does not take up the session with the peer before `let_go`, or until the hold times out, which
  // takes longer after a hold in vain. `even_if_ready`: also breaks a connection that works. Carry
  // out the box; then nothing more arrives here, and `received` counts the frames that did. False:
  // there is no session to take up.
  bool hold(const Now& now, PeerId peer, bool even_if_ready, Outbox& out) {
    return connector_.hold(now, peers_[peer], even_if_ready, out);
  }
  // False if it cannot be sent now: there is no connection, or no room.
  bool send_handover(PeerId peer, const HandoverMessage& message, Outbox& out) {
    return peers_[peer].connection.is_ready() && !peers_[peer].connection.left() &&
           sender_.send_handover(peers_[peer], message, out);
  }
  bool is_held(PeerId peer) const { return peers_[peer].connection.is_held(); }
  // Frames of the session that have arrived.
  std::uint32_t received(PeerId peer) const { return peers_[peer].connection.received(); }
  // Frames of the last session that had arrived, if the session is over and the peer may not know:
  // the answer when it asks about a session that cannot be held. None arrive any more.
  std::optional<std::uint32_t> received_before_end(PeerId peer) const {
    return peers_[peer].connection.received_before_end();
  }
  // The peer, which holds the session too or has ended it, has received so many of our frames.
  // Calls `give(slot)` for each frame that it lacks, oldest first, and for pending ones. From here
  // on `send` returns Status::elsewhere until there is a connection, and puts that were under way
  // may be withdrawn. False: the session is not held, or the number is impossible and the peer was
  // given up.
  template <typename Give>
  bool give_away(const Now& now, PeerId peer, std::uint32_t received, Outbox& out, Give&& give) {
    if (!connector_.give_away(now, peers_[peer], received, out)) return false;
    transfers_.settle(peers_[peer]);
    sender_.drop_pending(peers_[peer], give);
    return true;
  }
  // Calls `take(slot)` for each frame that waits for a connection which begins a session.
  template <typename Take>
  void take_unsent(PeerId peer, Take&& take) {
    if (peers_[peer].connection.begins()) sender_.drop_pending(peers_[peer], take);
  }
  void let_go(const Now& now, PeerId peer, Outbox& out) {
    connector_.let_go(now, peers_[peer], out);
  }

  // ---- time ----

  // Retries, gives up, notices stalled lanes, probes silent ones. Call when `next_deadline` has
  // come and all available completions have been handed over.
  void on_timer(const Now& now, Outbox& out);
  Time next_deadline() const;

  // ---- end ----

  // Leaves a peer: pending frames go out, then a goodbye; then the lane is dropped.
  void close(const Now& now, PeerId peer, Outbox& out) { connector_.close(now, peers_[peer], out); }
  // Stops waiting for the end of `close`.
  void abandon(const Now& now, PeerId peer, Outbox& out) {
    connector_.abandon(now, peers_[peer], out);
  }
  bool closed(PeerId peer) const { return Connector::is_closed(peers_[peer]); }

  // ---- looking in ----

  const Config& config() const { return config_; }
  std::uint32_t window_max() const { return receiver_.window_max(); }
  // False: even W_max is less than the least credits of all peers.
  bool covers_all_peers() const { return receiver_.covers_all_peers(); }
  const Counters& counters() const { return counters_; }
  Counters& counters() { return counters_; }
  PeerName name(PeerId peer) const { return peers_[peer].name; }
  bool is_ready(PeerId peer) const { return peers_[peer].connection.is_ready(); }
  PeerState state(PeerId peer) const { return peers_[peer].connection.state(); }
  // Whether there is a connection: it is ready, or about to end.
  bool is_connected(PeerId peer) const {
    const Connection& connection = peers_[peer].connection;
    return connection.is_open() || connection.is_leaving();
  }
  PeerId peer_of(LaneId lane) const { return lanes_[lane].peer; }
  std::uint32_t peer_count() const { return peers_.size(); }
  std::uint32_t connecting_count() const { return connector_.pending(); }
  // The rules of the connector's table that were taken, for tests.
  const std::array<bool, connection_table::count>& rules_taken() const {
    return connector_.taken();
  }
  std::uint32_t max_payload_bytes() const { return sender_.max_payload_bytes(); }

  // Where a peer stands, for reports, tests and the simulator.
  struct Standing {
    std::size_t pending_frames;     // not posted yet
    std::uint32_t credits;          // that we hold
    std::uint32_t credits_out;      // that the peer holds
    std::uint32_t control_credits;  // that we hold
    bool left;                      // it said goodbye
  };
  Standing standing(PeerId id) const;
  // The same for `weir top`.
  PeerRow row(PeerId id) const;
  const ReadTimes& read_times() const { return transfers_.read_times(); }

  // Where the proxy stands.
  struct ProxyStanding {
    std::uint32_t given;    // frames at servers, as far as this process knows
    std::uint32_t in_hand;  // frames that we serve for others
    bool jammed;
    bool serves;
  };
  ProxyStanding proxy_standing() const {
    return {relay_task_.given(), proxy_.in_hand(), relay_task_.jammed(), proxy_.serving()};
  }

  // Whether buffers, credits and queues add up, and transfers go on; for tests and the simulator.
  bool conserved() const;

 private:
  void set_gates();
  PeerRow::Wait wait_of(const Peer& peer) const;
  void on_send_completion(const Now& now, const Completion& completion, Outbox& out);
  void on_receive_completion(const Now& now, const Completion& completion, Outbox& out);
  // Takes a frame of another kind than `messages`; `none` if a correct peer may send it now.
  [[gnu::noinline]] FrameFault take_special(const Now& now, Peer& peer, BufferId buffer,
                                            wire::FrameHeader header, std::size_t size,
                                            Outbox& out);
  [[gnu::cold, gnu::noinline]] void on_bad_frame(const Now& now, Peer& peer, BufferId buffer,
                                                 const BadFrame& bad, Outbox& out);
  [[gnu::cold, gnu::noinline]] void refuse(const Now& now, Peer& peer, const BadFrame& bad,
                                           Outbox& out);
  // Something came from the peer, or left for it, that its frames or its closing may wait for.
  void go_on(const Now& now, Peer& peer, Outbox& out) {
    if (peer.connection.is_ready()) {
      sender_.go_on(now, peer, out);
      if (peer.connection.asked_to_part()) [[unlikely]]
        connector_.answer_part(now, peer, out);
    } else {
      connector_.go_on_ending(now, peer, out);
    }
  }

  // A frame has left its lane, and its poster no longer needs the slot.
  void on_frame_over(SendSlot* slot, bool delivered, Outbox& out) {
    give_back_tokens(*slot);
    retire(slot, delivered, out);
  }
  void retire(SendSlot* slot, bool delivered, Outbox& out);
  // The adapter no longer has the frame.
  void give_back_tokens(SendSlot& slot) {
    if (slot.messages > 0 && node_line_.on()) [[unlikely]]
      node_line_.on_over(std::exchange(slot.tokens, std::uint16_t{0}));
  }
  void on_chunk_over(const RdmaInFlight& chunk) {
    if (node_line_.on()) [[unlikely]]
      node_line_.on_over(chunk.tokens);
  }

  // Lanes::Listener
  void on_frame_released(SendSlot* slot, bool delivered, Outbox& out) override {
    on_frame_over(slot, delivered, out);
  }
  void on_chunk_lost(const RdmaInFlight& chunk) override { on_chunk_over(chunk); }

  // Receiver::Listener
  void on_shares_changed(Outbox& out) override { sender_.offer_shares(out); }
  void on_shares_exceeded(Outbox& out) override { sender_.recall_excess(out); }

  // Sender::Listener
  void on_queue_full(Peer& peer) override { transfers_.on_queue_full(peer); }

  // Connector::Listener
  bool has_work(const Peer& peer) const override {
    return peer.outgoing.has_pending() || peer.outgoing.frames_in_doubt() > 0 ||
           peer.relayed.given() > 0 || transfers_.has(peer);
  }
  bool may_part(const Peer& peer) const override {
    return !has_work(peer) && FetchLanes::is_settled(peer);
  }
  void describe_transfers(const Peer& peer, Failure& failure) const override {
    Transfers::describe(peer, failure);
  }
  void on_broken(Peer& peer, Outbox& out) override {
    transfers_.pause(peer);
    transfers_.fetch_lanes().fence(peer, out);
  }
  void on_settled(SendSlot* slot, bool delivered, Outbox& out) override {
    retire(slot, delivered, out);
  }
  void on_paused(Peer& peer) override { transfers_.pause(peer); }
  void on_ready(const Now& now, Peer& peer, Outbox& out) override;
  void on_lane_ends(Peer& peer, Outbox& out) override { transfers_.fetch_lanes().drop(peer, out); }
  void on_gone(const Now& now, Peer& peer, Outbox& out) override;

  Config config_;
  Counters counters_;
  Peers peers_;
  Lanes lanes_;
  Receiver receiver_;
  Sender sender_;
  Connector connector_;
  Arrival arrival_;
  Transfers transfers_;
  Watch watch_;
  NodeLine node_line_;
  Proxy proxy_;
  RelayServer relay_server_;
  RelayTask relay_task_;
  RelayedArrivals relayed_arrivals_;
  NodeGate node_gate_;
};

}  // namespace weir
