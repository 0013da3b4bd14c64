// The protocol core: one object for all peers of one process on one device port.
//
// Sans-I/O. Every step takes the time and an Outbox, never blocks, and says what it wants done as
// values in the box. The verbs engine and the simulator drive the same object. It owns no memory
// that the adapter sees, and knows no clock, thread, lock or system call. Only `add_peer`,
// `on_request` of a stranger, new lanes, and `on_slab` allocate; the eager path does not.
//
// Thread rule: the caller serialises all calls.
//
// Where to read on: send.cc (eager send), receive.cc (arrival, credits, the receive window),
// rdma.cc (gets, puts, atomics), node.cc (what the node's processes share), relay.cc (the node's
// proxy), bulk.cc (a second lane for chains of reads), connect.cc (connections, close, failure).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flowctl/admission.h"
#include "flowctl/eager_window.h"
#include "flowctl/proxy.h"
#include "rendezvous/scheduler.h"
#include "srq/receive_pool.h"
#include "srq/rnr_timer.h"
#include "srq/shrink_policy.h"
#include "srq/window_controller.h"
#include "transport/base/counters.h"
#include "transport/base/fifo.h"
#include "transport/base/list.h"
#include "transport/base/stable_vector.h"
#include "transport/base/time.h"
#include "transport/core/outbox.h"
#include "transport/lane/peer_state.h"
#include "transport/lane/send_queue.h"

namespace weir {

class Core {
 public:
  struct Config {
    PeerName self;
    wire::Key key{};                    // ours: who asks for a connection has to know it
    std::uint32_t buffer_bytes = 8192;  // one receive buffer = the largest frame
    WindowController::Config window;
    EagerWindow::Config credits;
    std::uint8_t rnr_code = 12;  // RNR NAK timer that we advertise, at first
    bool rnr_auto = false;       // then follow how long reposts take
    SendQueue::Config queue;
    std::uint32_t inline_bytes = 256;          // frames up to this size are inlined
    std::uint32_t bundle_bytes = 4096;         // a bundle of small messages grows up to this size
    std::uint32_t bundle_message_bytes = 512;  // messages up to this size are bundled
    std::uint32_t burst_frames = 4;            // frames to a peer that go at once in one round
    std::uint32_t pending_frames = 1024;       // cap of a peer's pending queue
    Scheduler::Config transfers;
    Admission::Config admission;
    std::uint32_t max_rd_atomic = 16;     // reads and atomics a queue pair of ours has under way
    std::uint32_t fetches_answered = 16;  // of those of a peer's queue pair; 1 to 255
    // Gets and atomics have a lane without sends and writes: Soft-RoCE takes one for complete that
    // lost its data when it repeats a send before it.
    bool fetches_apart = false;
    std::uint32_t window_unattended = 128;  // W grows beyond only for an application that receives
    std::uint32_t window_unasked = UINT32_MAX;   // and beyond this only for peers without credits
    Duration shrink_after = seconds(2);          // of a receive window hardly used; 0: never
    Duration attempt_timeout = seconds(2);       // then a connection is asked for again
    Duration connect_timeout = seconds(30);      // then the peer is given up
    Duration peer_timeout = seconds(30);         // without a sign of life, asked for: the same
    bool proxy = false;                          // leave room for what a relay adds to a frame
    Duration proxy_patience = milliseconds(50);  // with a server that does not move
  };

  explicit Core(const Config& config);

  // ---- start ----

  // Asks for the first receive buffers. Call once, before the first connection.
  void start(Outbox& out);

  // What this process shares with the others of its node, from here on: the tokens that requests
  // take, and the read budget. Either may be nullptr; the pools outlive this.
  void join_node(PoolMember::Pool* requests, PoolMember::Pool* reads) {
    admission_.join(requests);
    scheduler_.join_node(reads);
  }

  // From here on frames may go through a server of the node, or this process may be one. The
  // ground outlives this; `config.proxy` must be set. With `cells_lkey` the adapter may send from
  // its cells.
  void join_proxy(const ProxyGround& ground, std::uint32_t slot, ProcessId self,
                  std::optional<std::uint32_t> cells_lkey = std::nullopt);
  // A slot with room for a full frame, to relay with. The core keeps it for good.
  void lend_relay_slot(SendSlot* slot);
  static constexpr std::size_t most_relay_slots = 16;
  std::size_t idle_relay_slots() const { return relay_slots_.size(); }

  // Finds or makes the record of a process; `key` is what its card says. Allocates when it is new.
  PeerId add_peer(PeerName name, const wire::Key& key = {});

  // How many processes may connect; bounds what each can be granted. Rises, never falls.
  void expect_peers(std::uint32_t count);

  // A slot (of at least frame_header_bytes) for control frames. The core keeps it for good. To be
  // given before a ConnectAction is carried out, while the core lacks any.
  void lend_control_slot(SendSlot* slot) {
    control_slots_.push(slot);
    ++control_slots_lent_;
  }
  std::size_t idle_control_slots() const { return control_slots_.size(); }
  bool lacks_control_slots() const {
    return control_slots_lent_ < lanes_.size() * control_slots_per_lane;
  }

  // ---- eager path ----

  // Sends the one message of `length_bytes` at slot->payload(). On `ok` the core owns the slot
  // until it appears in Outbox::retired; otherwise the caller keeps it. Never reports
  // back-pressure when `must_take`.
  Status send(Time now, PeerId peer, SendSlot* slot, std::uint32_t length_bytes, std::uint8_t tag,
              bool must_take, Outbox& out);

  // Room for a small message in a frame to `peer` that has not left yet, or nullptr: then use
  // `send`. The caller writes the payload there before its next call of the core.
  std::byte* append(PeerId peer, std::uint32_t length_bytes, std::uint8_t tag);

  // Whether a small message sent now would wait in its frame: then a slot with room for a bundle
  // is the better one to bring.
  bool would_hold(PeerId peer) const;

  // The layer above is done with a delivered buffer (once for each delivery with `last`).
  void release(BufferId buffer);

  // Posts what is held back: frames, and receive buffers once there are enough. To be called after
  // the messages of a poll were handed up.
  void pump(Time now, Outbox& out);

  // Gives credits back to peers that are low on them, in frames of their own. To be called when the
  // application comes back for more: until then its own frames may have carried them.
  void give_back_credits(Outbox& out);

  // Released buffers that may stay unposted; with more, a pump is worth its while.
  std::uint32_t release_slack() const { return eager_.slack(); }

  // The application makes progress: a new round of frames that go at once begins. (A pump begins
  // one, too.)
  void begin_round() { ++epoch_; }
  std::uint64_t round() const { return epoch_; }

  // Frames that wait: to be bundled, for credits, for a connection. While there are any, the event
  // thread looks after them, should the application not come back.
  std::uint64_t pending_frames() const { return pending_frames_ + relayed_; }

  // Frames wait, or transfers whose next chunks need the completions of earlier ones, or other
  // processes of the node may wait for what this one has in the adapter.
  bool needs_attendance() const {
    return pending_frames() > 0 || has_transfers() || holds_tokens() || waits_for_node() ||
           proxy_.serving();
  }

  // ---- the node ----

  // Something waits for tokens of the node, or for a delay: `look_at_node` has to be called now and
  // then. It posts what can go.
  bool waits_for_node() const { return admission_.waiting() || scheduler_.waits_for_node(); }
  void look_at_node(Time now, Outbox& out);
  // Requests are in the adapter whose tokens others may wait for.
  bool holds_tokens() const { return admission_.member().out() > 0; }
  // `send`, `pump` and completions need the time.
  bool needs_time() const { return admission_.needs_time() || proxy_.joined(); }

  // ---- the node's proxy ----

  bool has_proxy() const { return proxy_.joined(); }
  // Sees to frames that servers had, and serves. To be called in every progress call (`present`),
  // and when the application does not come while there is attendance needed.
  void look_at_proxy(Time now, bool present, Outbox& out);
  // With frames at a server for long: finds out whether it is dead. `alive(ProcessId)` may cost
  // system calls.
  bool waits_for_server() const { return relayed_ > 0 || jammed_; }
  template <typename Alive>
  void look_for_dead_servers(Time now, Alive&& alive, Outbox& out) {
    proxy_.reap(alive);
    std::uint64_t outcome = 0;
    proxy_.oldest(outcome, [&](ProcessId id) {
      const bool lives = alive(id);
      if (!lives) dead_server_ = id;
      return lives;
    });
    look_at_proxy(now, false, out);
  }
  // This process serves no more, and gives no frames to others.
  void leave_proxy();
  // A frame of Outbox::relays_failed: no adapter sends from it any more.
  void on_relay_failed(SendSlot* slot);
  // Cells of this process that are not in use, a bit for each; for tests and the simulator.
  std::uint32_t free_cells() const { return proxy_.free_cells(); }

  // Frames wait to be bundled: the next pump posts them.
  bool has_held() const { return held_head_ != nullptr; }

  // There is enough for a pump to do.
  bool wants_pump() const {
    return held_head_ != nullptr || pool_.free() > release_slack() || pool_.can_drop();
  }

  // ---- large messages and one-sided ----

  // Takes a get, put or atomic, always. Its end is in Outbox::transfers. Local and remote memory
  // are registered, and stay so until then.
  void transfer(Time now, const TransferRequest& request, Outbox& out);

  // Transfers are under way: completions are needed in time, and the time with them.
  bool has_transfers() const { return !scheduler_.idle(); }
  std::uint64_t transfers_under_way() const {
    const Scheduler::Counts& counts = scheduler_.counts();
    return counts.submitted - counts.done - counts.failed;
  }
  std::uint64_t chunks_under_way() const {
    return std::uint64_t{scheduler_.reads().chunks()} + scheduler_.writes().chunks();
  }

  // ---- from the adapter ----

  void on_completion(Time now, const Completion& completion, Outbox& out);
  // All that arrived was handled, and the application asks for more: the receiver is not the
  // bottleneck now.
  void on_idle(Outbox& out);
  void on_srq_limit(Outbox& out);
  // After a limit event, receives were posted again so much later.
  void on_reposted(Duration event_to_repost, Outbox& out);
  // A look, with all completions seen, for a limit event that should have come and was lost. To be
  // called about once a second.
  void raise_lost_limit(Outbox& out);
  void on_slab(std::uint64_t address, std::uint32_t lkey, std::uint32_t count, Outbox& out);
  void on_slab_failed(Outbox& out);
  // Our end of a bulk lane was made, and connected if that was asked for; qp_number 0: it was not.
  void on_bulk_end(Time now, LaneId lane, const wire::LaneEnd& ours, Outbox& out);

  // ---- from connection management ----

  void on_request(Time now, RequestId request, const wire::Hello& hello, Outbox& out);
  // Our request was answered and the queue pair is ready to send.
  void on_answer(Time now, LaneId lane, const wire::Hello& hello, Outbox& out);
  // The peer confirmed a connection that we accepted; or a looped lane works.
  void on_established(Time now, LaneId lane, Outbox& out);
  // Our request was refused by weir on the other side.
  void on_rejected(Time now, LaneId lane, wire::Reject reason, Outbox& out);
  // The attempt failed below weir, or its queue pair could not be made.
  void on_connect_failed(Time now, LaneId lane, FailReason reason, Outbox& out);
  void on_disconnected(Time now, LaneId lane, Outbox& out);
  // The lane's queue pair broke (asynchronous event of the device).
  void on_lane_error(Time now, LaneId lane, Outbox& out);
  // A drop was carried out: nothing names the lane any more, so its id may be another's.
  void on_dropped(LaneId lane);

  // ---- time ----

  // Retries, gives up, notices stalled lanes, probes silent ones. Call when `next_deadline` has
  // come and all completions that are there have been handed over.
  void on_timer(Time now, Outbox& out);
  Time next_deadline() const;

  // ---- end ----

  // Leaves a peer: what is pending goes out, then a goodbye; then the lane is dropped.
  void close(Time now, PeerId peer, Outbox& out);
  // Gives up waiting for that.
  void abandon(Time now, PeerId peer, Outbox& out);
  bool closed(PeerId peer) const;

  // ---- looking in ----

  const Config& config() const { return config_; }
  // The device can post no more than this inline. From now on, also on lanes that are there.
  void limit_inline(std::uint32_t bytes) {
    config_.inline_bytes = std::min(config_.inline_bytes, bytes);
  }
  std::uint32_t window_max() const { return window_.max(); }
  // False: even at W_max the window has less than the least credits of all peers.
  bool covers_all_peers() const { return eager_.least_window() <= window_.max(); }
  const Counters& counters() const { return counters_; }
  Counters& counters() { return counters_; }
  PeerName name(PeerId peer) const { return peers_[index(peer)].name; }
  PeerState state(PeerId peer) const { return peers_[index(peer)].state; }
  PeerId peer_of(LaneId lane) const { return lanes_[index(lane)].peer; }
  std::uint32_t peer_count() const { return peers_.size(); }
  std::uint32_t connecting_count() const { return connecting_; }
  // The shared receive queue is to be made: it has to have room for so many. Say first how many
  // peers are expected.
  std::uint32_t settle_receive_queue() {
    window_.settle_most();
    return window_.most();
  }
  // Work requests that a second lane has in its queue at most.
  std::uint32_t bulk_depth() const {
    return std::min(std::max(4 * config_.queue.signal_interval, 2u), config_.queue.depth);
  }
  std::uint32_t max_payload_bytes() const {
    return frame_bytes_max() - static_cast<std::uint32_t>(wire::first_payload_offset);
  }

  // Where a peer stands, for reports, tests and the simulator.
  struct Standing {
    std::size_t pending_frames;     // not posted yet
    std::uint32_t credits;          // that we hold
    std::uint32_t credits_out;      // that the peer holds
    std::uint32_t control_credits;  // that we hold
    bool left;                      // it said goodbye
  };
  Standing standing(PeerId peer) const {
    const Peer& p = at(peer);
    return {p.pending.size(), p.credits, p.share.out, p.control_credits, p.left};
  }

  // The same of the proxy.
  struct ProxyStanding {
    std::uint32_t given;    // frames at servers, as far as this process knows
    std::uint32_t in_hand;  // frames of others
    bool jammed;
    bool serves;
  };
  ProxyStanding proxy_standing() const {
    return {relayed_, proxy_.in_hand(), jammed_, proxy_.serving()};
  }

  // Whether buffers, credits and queues add up, and transfers go on; for tests and the simulator.
  bool conserved() const;

 private:
  // Its control credits, a goodbye, and one to spare.
  static constexpr std::size_t control_slots_per_lane = 4;

  struct Lane {
    PeerId peer = PeerId::none;
    bool open = false;
    std::uint32_t tx_sequence = 0;
    std::uint32_t rx_sequence = 0;
    std::uint8_t patience = 0;          // looks of the watch until work in flight is too late
    std::uint64_t watched_retired = 0;  // retired when that began
    std::uint64_t heard = 0;            // signs of life up to the last look
    SendQueue queue;

    explicit Lane(const SendQueue::Config& config) : queue(config) {}
  };

  // The second lane of a peer, for chains of reads, or for all fetches.
  enum class BulkState : std::uint8_t {
    none,
    offered,  // ours is made
    joined,   // ours is connected to the peer's
    refused,  // one side could not make its end
  };
  struct Bulk {
    BulkState state = BulkState::none;
    bool peer_joined = false;  // the peer's end is connected to ours
    bool to_tell = false;      // the peer is to hear of our end
    LaneId lane = LaneId::none;
    std::uint32_t reads = 0;  // under way at most
    wire::LaneEnd ours{};     // as far as it is made
    wire::LaneEnd theirs{};   // told before ours was made

    bool usable() const { return ours.joined && peer_joined; }
  };

  struct Peer {
    PeerName name;
    wire::Key key{};
    PeerState state = PeerState::idle;
    LaneId lane = LaneId::none;
    Bulk bulk;
    bool left = false;  // its goodbye arrived
    bool goodbye_sent = false;
    bool fetches = false;            // it had a get or an atomic
    std::uint32_t most_fetches = 1;  // max_rd_atomic of its lane, as both ends agreed
    bool in_due_list = false;
    bool in_held_list = false;
    Peer* next_held = nullptr;
    Link<Peer> waits;  // for the node, with pending frames

    Fifo<SendSlot> pending;     // frames not posted yet, oldest first
    std::uint32_t credits = 0;  // frames of messages we may send
    std::uint8_t control_credits = 0;
    std::uint8_t control_owed = 0;  // control frames of the peer to be given back
    std::uint64_t burst_epoch = 0;  // round of the last frame
    std::uint32_t burst = 0;        // frames since then

    EagerWindow::Share share;  // what the peer may send to us

    // Frames that servers of the node have, or may have, for this peer.
    std::uint32_t relayed = 0;
    std::uint32_t relay_sequence = 0;  // of the next one
    std::uint32_t relay_expected = 0;  // of the peer's next one to us
    bool taken_back = false;           // they are repeated; no more, until all of them are over
    bool relay_never = false;          // some of them were given up
    Time relay_from{};                 // not before; a server sent one back
    Duration relay_pause{};            // and so long after the next one

    std::uint64_t attempt = 0;       // of our last request
    std::uint64_t attempt_seen = 0;  // of the last request of the peer that we accepted
    Time connect_since{};
    Time attempt_deadline = Time::never();
    FailReason trouble = FailReason::connect_timeout;  // why this attempt is over before that
  };

  Peer& at(PeerId id) { return peers_[index(id)]; }
  const Peer& at(PeerId id) const { return peers_[index(id)]; }
  Lane& at(LaneId id) { return lanes_[index(id)]; }
  const Lane& at(LaneId id) const { return lanes_[index(id)]; }
  PeerId id_of(const Peer& peer) const;
  Lane* open_lane(LaneId id) {
    if (index(id) >= lanes_.size() || !at(id).open) return nullptr;
    return &at(id);
  }
  bool is_watched(const Lane& lane) const;
  bool may_probe(const Lane& lane) const;
  void look_at(Time now, Lane& lane, bool its_turn, Outbox& out);
  static bool is_waiting(PeerState state) {
    return state == PeerState::connecting || state == PeerState::accepting;
  }
  void move_to(Peer& peer, PeerState state);
  // Frames that wait, or transfers that are not over.
  bool has_work(const Peer& peer) const {
    return !peer.pending.empty() || peer.relayed > 0 || scheduler_.has_transfers(id_of(peer));
  }

  // send.cc
  [[gnu::noinline]] void post_pending(Time now, Peer& peer, bool keep_open_bundle, Outbox& out);
  bool may_go_at_once(Peer& peer);
  void post_messages(Peer& peer, Lane& lane, SendSlot* slot, Outbox& out);
  void post_frame(Peer& peer, Lane& lane, SendSlot* slot, wire::FrameKind kind,
                  std::uint32_t credits, Outbox& out);
  void close_chain(Lane& lane, Outbox& out);
  bool send_control(Peer& peer, wire::FrameKind kind, std::uint32_t credits, Outbox& out);
  bool open_for_append(const SendSlot& slot, std::uint32_t length_bytes) const;
  std::byte* add_message(SendSlot& slot, std::uint32_t length_bytes, std::uint8_t tag);
  bool send_probe(Lane& lane, Outbox& out);
  void hold(Peer& peer);
  void retire(SendSlot* slot, bool delivered, Outbox& out);
  void drop_pending(Peer& peer, Outbox& out);
  std::uint32_t frame_bytes_max() const {
    const auto added = static_cast<std::uint32_t>(config_.proxy ? wire::section_header_bytes : 0);
    return config_.buffer_bytes - added;
  }

  // relay.cc
  enum class Route : std::uint8_t { own, given, full };
  [[gnu::noinline]] Route route(Time now, Peer& peer, SendSlot* slot);
  bool may_relay(Time now, const Peer& peer) const;
  void look_at_outcomes(Time now, Outbox& out);
  void go_on_without_server(Time now, Outbox& out);
  void take_back(Time now, PeerId only, Outbox& out);
  void serve(Time now, bool present, Outbox& out);
  void relay(Time now, const Proxy::Work& work, Outbox& out);
  bool refuses(Time now, const Proxy::Work& work, PeerId& to, Outbox& out);
  void begin_relay(SendSlot& slot, const Proxy::Work& work);
  void copy_home(SendSlot& slot);
  void add_section(SendSlot& slot, const Proxy::Work& work);
  [[gnu::noinline]] void relay_over(SendSlot* slot, bool delivered, Outbox& out);
  void report_relay(SendSlot* slot, std::uint64_t outcome);
  bool is_in_cell(const SendSlot& slot) const { return slot.frame != carried_[slot.relay].frame; }
  void drop_relayed(Peer& peer, Outbox& out);

  // node.cc
  class Gate;
  bool admit(Time now, Peer& peer, SendSlot& slot) {
    return !admission_.on() || admit_frame(now, peer, slot);
  }
  [[gnu::noinline]] bool admit_frame(Time now, Peer& peer, SendSlot& slot);
  // A frame that nothing is ahead of, here or in the line for the node, and no threshold is in the
  // way of.
  bool passes_node(const SendSlot& slot) {
    if (proxy_.joined() || chunks_wait_ || !waiters_.empty()) return false;
    if (!admission_.passes(slot.frame_bytes)) return false;
    book_posted();
    return true;
  }
  bool admit_chunk(Time now, std::uint32_t bytes, std::uint16_t& tokens);
  void landed(SendSlot* slot, bool delivered, Outbox& out) {
    if (slot->messages > 0 && admission_.on()) [[unlikely]]
      take_back_tokens(std::exchange(slot->tokens, std::uint16_t{0}));
    retire(slot, delivered, out);
  }
  void landed(const RdmaInFlight& chunk) {
    if (admission_.on()) [[unlikely]]
      take_back_tokens(chunk.tokens);
  }
  // A request has left the adapter, or will without anybody hearing of it.
  void take_back_tokens(std::uint16_t tokens) {
    admission_.set_active(--in_adapter_);
    if (tokens > 0) give_tokens(tokens);
  }
  [[gnu::noinline]] void give_tokens(std::uint16_t tokens);
  bool has_turn(bool others_wait) const;
  void book_posted() {
    turn_taken_ = true;
    admission_.set_active(++in_adapter_);
  }
  void book_node();
  void excuse_stuck(Time now);

  // rdma.cc
  void issue_chunks(Time now, Outbox& out);
  void let_chunks_go(Time now, Peer& peer, Outbox& out);
  void on_chunk(Time now, const RdmaInFlight& chunk);
  bool has_bulk_room(const Lane& lane) const;
  bool keeps_fetches_apart(const Peer& peer) const {
    return config_.fetches_apart && peer.name != config_.self;  // to itself nothing is lost
  }
  LaneId fetch_lane(const Peer& peer) const;
  std::uint32_t fetches_open(const Peer& peer) const;
  void drop_transfers(Time now, const Peer& peer, Outbox& out);
  void take_finished(Outbox& out);
  void count_transfer(const TransferRequest& request);

  // bulk.cc
  void want_bulk_lane(Peer& peer, Outbox& out);
  std::uint32_t most_bulk_reads() const;
  void make_bulk_end(Peer& peer, const wire::LaneEnd& theirs, Outbox& out);
  bool take_bulk_end(Time now, Peer& peer, const wire::LaneEnd& theirs, Outbox& out);
  void use_bulk(Time now, Peer& peer, Outbox& out);
  void refuse_bulk(Time now, Peer& peer, Outbox& out);
  void tell_bulk_end(Peer& peer, Outbox& out);
  void drop_bulk_lane(Peer& peer, Outbox& out);

  // receive.cc
  void on_send_completion(Time now, const Completion& completion, Outbox& out);
  void on_receive_completion(Time now, const Completion& completion, Outbox& out);
  FrameFault take_frame(Peer& peer, Lane& lane, const std::byte* frame, std::size_t size);
  FrameFault take_header(Peer& peer, Lane& lane, const wire::FrameHeader& header);
  void deliver(PeerId from, BufferId buffer, const std::byte* messages, std::size_t size,
               Outbox& out);
  [[gnu::noinline]] bool take_numbered(PeerId by, BufferId buffer, std::size_t size, Outbox& out);
  bool take_section(PeerId from, BufferId buffer, const std::byte* messages, std::size_t size,
                    Outbox& out);
  [[gnu::noinline]] void window_changed(Outbox& out);
  void post_receives(Outbox& out);
  bool below_limit() const;
  bool grow_at_limit();
  void arm_limit(Outbox& out);
  void look_at_window(Time now, Outbox& out);
  void look_at_shares(Outbox& out);
  void count_credit_frames_anew();
  void demanded(Outbox& out);
  bool may_shrink() const;
  void recall_credits(Outbox& out);
  void return_credits(Peer& peer, std::uint32_t keep, Outbox& out);
  void drop_slabs(Outbox& out);
  void put_back(BufferId buffer);
  void book_buffers();
  bool is_due(const Peer& peer) const { return eager_.low(peer.share) || peer.bulk.to_tell; }
  void note_due(Peer& peer);
  bool may_top_up(const Peer& peer) const;
  std::uint32_t top_up(Peer& peer, std::uint32_t most);

  // connect.cc
  [[gnu::noinline]] void connect(Time now, Peer& peer, Outbox& out);
  LaneId new_lane(const Peer& peer);
  void drop_lane(Peer& peer, Outbox& out);
  void release_lane(LaneId id, Outbox& out);
  PeerId find_or_make(PeerName name);
  PeerId find(PeerName name) const;
  wire::Hello hello_to(Peer& peer, Outbox& out);
  void agree_on_fetches(Peer& peer, std::uint32_t answered);
  void admit(Peer& peer, Outbox& out);
  [[gnu::noinline]] void become_ready(Time now, Peer& peer, Outbox& out);
  void give_up_attempt(Time now, Peer& peer, Outbox& out);
  void retry_or_fail(Time now, Peer& peer, FailReason reason, Outbox& out);
  void retry(Time now, Peer& peer, Outbox& out);
  [[gnu::noinline]] void fail(Time now, Peer& peer, const Failure& why, Outbox& out);
  void fail(Time now, Peer& peer, FailReason reason, CompletionStatus completion, Outbox& out) {
    fail(now, peer, Failure{id_of(peer), reason, completion, {}}, out);
  }
  void fail(Time now, Peer& peer, const BadFrame& frame, Outbox& out) {
    fail(now, peer, Failure{id_of(peer), FailReason::bad_frame, CompletionStatus::success, frame},
         out);
  }
  [[gnu::noinline]] void finish_close(Time now, Peer& peer, Outbox& out);
  [[gnu::noinline]] void try_finish_close(Time now, Peer& peer, Outbox& out);
  void reset_session(Peer& peer);

  Config config_;
  Counters counters_;
  WindowController window_;
  ShrinkPolicy shrink_;
  RnrAdvisor rnr_;
  EagerWindow eager_;
  ReceivePool pool_;
  Scheduler scheduler_;
  Admission admission_;
  std::uint32_t slabs_asked_ = 0;           // buffers asked for and not answered yet
  std::uint64_t frames_at_demand_ = 0;      // frames received when a demand last grew the window
  std::uint64_t frames_at_share_look_ = 0;  // the same, when credit frames were counted anew
  std::uint64_t credit_frames_ = 0;         // sent since then
  bool starved_peer_seen_ = false;
  bool limit_armed_ = false;
  std::uint64_t taken_ = 0;  // buffers that the layer above released
  std::uint64_t taken_at_growth_ = 0;

  StableVector<Peer> peers_;
  StableVector<Lane> lanes_;
  std::vector<LaneId> free_lanes_;
  std::unordered_map<std::uint64_t, PeerId> by_name_;
  std::uint32_t connecting_ = 0;
  Time next_look_{};         // of the watch, if there is a lane to look at
  Time next_window_look_{};  // if the window may shrink
  std::uint32_t looks_ = 0;
  std::vector<PeerId> due_;  // peers that may be due for a credit frame
  Peer* held_head_ = nullptr;
  List<Peer, &Peer::waits> waiters_;  // for the node, in turn; the front one has the ticket
  bool chunks_wait_ = false;          // so do chunks
  bool chunks_turn_ = false;          // which come before all of them now
  bool serving_node_ = false;         // the line is gone through,
  bool turn_taken_ = false;           // and who is at its front has had its request
  Time next_excuse_{};
  Time next_read_excuse_{};
  std::uint64_t in_adapter_ = 0;      // frames and chunks; counted only with admission
  std::uint64_t epoch_ = 0;           // the round
  std::uint64_t pending_frames_ = 0;  // of all peers
  // A frame that this process gave to a server, by its number there.
  struct Relayed {
    SendSlot* slot = nullptr;  // to be repeated from; nullptr: it is repeated, or given up
    PeerId peer = PeerId::none;
  };
  // A frame with those of others, by SendSlot::relay.
  struct Carried {
    static constexpr std::uint32_t most = 32;
    std::byte* frame = nullptr;  // the slot's own memory, where the frame is unless it is in a cell
    std::uint32_t lkey = 0;
    std::uint32_t count = 0;
    std::array<std::uint32_t, most> task;
    std::array<std::uint64_t, most> at;
  };
  Proxy proxy_;
  bool straight_ = true;  // frames need neither tokens nor a server
  std::array<Relayed, proxy_depth> given_;
  std::uint32_t relayed_ = 0;  // frames given and not over
  bool jammed_ = false;        // no frames are given, until those that were are over
  ProcessId dead_server_;      // that had some of them
  Time moved_{};               // when one was over last, or the first was given
  std::uint32_t idle_looks_ = 0;
  Fifo<SendSlot> relay_slots_;
  std::vector<Carried> carried_;
  std::vector<PeerId> carried_to_;           // in this round
  std::optional<std::uint32_t> cells_lkey_;  // nothing: no frame is sent from its cell

  Fifo<SendSlot> control_slots_;
  std::size_t control_slots_lent_ = 0;
};

}  // namespace weir
