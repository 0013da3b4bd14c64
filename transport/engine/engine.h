// Drives the protocol core over one RDMA port: lock, clock, event thread, connections.
//
//   application threads            event thread (one)
//   send, progress                 connection events, SRQ limit, port events, deadlines
//        └──────── lock ───────────────┘
//                   core ─▶ Outbox ─▶ verbs
//
// Thread rule: any thread may call every public function. Messages, retired slots and failures are
// handed up only by `progress` and `stand_in`, without the lock, in order, by one thread at a time.
// A handler may call back into the engine, including `progress`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "flowctl/shm/segment.h"
#include "transport/core/core.h"
#include "transport/drive/absence.h"
#include "transport/drive/driver.h"
#include "transport/engine/lock.h"
#include "transport/engine/shown_peers.h"
#include "transport/engine/slot_pool.h"
#include "transport/engine/taken.h"
#include "transport/engine/thread_mark.h"
#include "transport/verbs/connections.h"
#include "transport/verbs/device.h"
#include "transport/verbs/queues.h"
#include "transport/wire/car.h"

namespace weir {

// A connection request that was refused because of the asker, or the way it asked.
struct Refusal {
  wire::Reject reason;
  PeerName from;        // as the request claims
  std::string address;  // where the request came from
  bool greeted;         // it speaks some version of weir's protocol
  bool last;            // later ones are only counted
};

// What the node's processes share: the read budget, and with admission the tokens.
struct NodeOptions {
  bool show = false;            // counters, for `weir top`; `share` does as well
  bool share = false;           // tokens, if the core's admission needs any, and:
  bool share_reads = true;      // the read budget
  std::string sharers;          // as in SegmentOptions
  std::uint32_t processes = 0;  // of this job on this node; warns if fewer are there; 0: unknown
  bool tells = false;           // news of this port, for the job's other processes here
  std::string directory = "/dev/shm";  // where the memory is
};

// The node's proxy, for the processes of one job; needs `core.proxy`.
struct ProxyOptions {
  std::uint32_t servers = 0;  // at a time; 0: there is none
  std::uint32_t tasks = 0;    // processes of the job on this node
};

class Engine : private Driver<Engine> {
 public:
  struct Options {
    verbs::DeviceWish device;              // which port and GID to use
    verbs::QueuePairOptions queue_pair;    // except pkey_index
    std::optional<std::uint16_t> pkey;     // nothing: that of the path
    Core::Config core;                     // `core.self` included
    std::uint64_t send_bytes = 64u << 20;  // memory of messages that wait to be sent
    Duration close_timeout = seconds(10);
    NodeOptions node;
    ProxyOptions proxy;
  };

  // Opens the port and starts to listen; makes no queues and no buffers yet. If there is no usable
  // device, returns nullptr and gives the reason in `why`: then weir is not available here.
  static std::unique_ptr<Engine> open(const Options& options, std::string& why);
  // The same on a port that was chosen before; `options.device` is ignored.
  static std::unique_ptr<Engine> open(const Options& options, const verbs::PortChoice& port,
                                      std::string& why);
  ~Engine();

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Where this process listens, for the modex.
  std::array<std::byte, wire::card_bytes> card() const;

  // Makes completion queue, SRQ, first receive buffers and event thread. Idempotent. False, with
  // the reason in `why`, if one of them cannot be had (say, because of the locked-memory limit).
  bool start(std::string& why);

  // A peer and where it listens. The same name gives the same id. False, with the reason in `why`,
  // if `card` is no valid card, or of a port that cannot be reached from ours.
  bool add_peer(PeerName name, std::span<const std::byte> card, PeerId& id, std::string& why);
  // The peer with that name, or none.
  PeerId find(PeerName name);
  // The record that the caller keeps of a peer; it comes with each message (Delivery::above).
  void set_above(PeerId peer, void* record);
  void* above(PeerId peer);

  // How many peers there may be; only a rise has an effect.
  void expect_peers(std::uint32_t count);

  // ---- sending ----

  // A slot for a message of up to `payload_bytes` (at most max_payload_bytes); nullptr only if
  // there is no memory.
  SendSlot* acquire(std::uint32_t payload_bytes) {
    std::lock_guard guard(lock_);
    return slots_->get(SlotPool::size_for(payload_bytes));
  }

  // Gives back a slot that was not sent.
  void discard(SendSlot* slot) {
    std::lock_guard guard(lock_);
    slots_->put(slot);
  }

  // Sends the message at slot->payload(). With slot->notify, the handler hears when the slot is
  // retired and then owns it; otherwise the slot is gone. If not `ok`, the caller keeps it.
  Status send(PeerId peer, SendSlot* slot, std::uint32_t length_bytes, std::uint8_t tag,
              bool must_take) {
    std::lock_guard guard(lock_);
    const bool owes = bell_ >= 0 && slot->notify;  // the slot may be retired at once
    owed_ += owes ? 1 : 0;
    const Status status = core_.send(now(), peer, slot, length_bytes, tag, must_take, out_);
    if (owes) note_owed(status);
    finish_send();
    return status;
  }

  // Sends a message that `fill(std::byte*)` writes, `length_bytes` long. `fill` runs with the
  // engine's lock held and must not call back. Back-pressure: too many frames wait, for this peer
  // or, with one of them for it, for all.
  template <typename Fill>
  Status send_filled(PeerId peer, std::uint32_t length_bytes, std::uint8_t tag, Fill&& fill) {
    std::lock_guard guard(lock_);
    SlotPool::Size size = SlotPool::size_for(length_bytes);
    if (core_.would_hold(peer)) {
      if (std::byte* at = core_.append(peer, length_bytes, tag)) {
        fill(at);
        return Status::ok;
      }
      if (length_bytes <= options_.core.bundle_message_bytes) size = SlotPool::full;
    }
    SendSlot* slot = slots_->get_within(size);
    if (slot == nullptr) [[unlikely]] {
      slot = core_.has_pending(peer) ? nullptr : slots_->get(size);
      if (slot == nullptr) {
        ++core_.counters().back_pressure;
        return Status::back_pressure;
      }
    }
    fill(slot->payload());
    const Status status = core_.send(now(), peer, slot, length_bytes, tag, false, out_);
    if (status != Status::ok) slots_->put(slot);
    finish_send();
    return status;
  }

  // Sends a message as a train of `cars` cars, of which `fill(number, std::byte*)` writes each and
  // returns its length; as `send_filled`.
  template <typename Fill>
  Status send_train(PeerId peer, std::uint32_t cars, Fill&& fill) {
    std::lock_guard guard(lock_);
    const Status admitted = core_.admit_train(peer);
    if (admitted != Status::ok) return admitted;
    std::array<SendSlot*, wire::most_cars> slots;
    for (std::uint32_t i = 0; i < cars; ++i) {
      slots[i] = slots_->get_within(SlotPool::full);
      if (slots[i] != nullptr) [[likely]]
        continue;
      while (i > 0) slots_->put(slots[--i]);
      return Status::back_pressure;
    }
    for (std::uint32_t i = 0; i < cars; ++i) {
      const std::uint32_t bytes = fill(i, slots[i]->payload());
      core_.send_car(now(), peer, slots[i], bytes, i + 1 == cars, out_);
    }
    wants_trains_.store(core_.wants_trains(), std::memory_order_relaxed);
    finish_send();
    return Status::ok;
  }
  // As Core had it when `progress` looked, or a train was sent. Without the lock.
  bool wants_trains() const { return wants_trains_.load(std::memory_order_relaxed); }
  // From now on the peer may send us trains, or may not.
  void let_train(PeerId peer, bool may) {
    std::lock_guard guard(lock_);
    core_.let_train(peer, may, out_);
    if (!out_.empty()) flush();
  }

  // ---- carrying frames over another rail (transport/rail/handover.h) ----

  // Makes no connection to the peer before `let_go`, or for a while (core.h); with `even_if_ready`
  // ends the one that there is. Returns how many frames of the session have arrived; nothing if
  // there is no session that could go on.
  std::optional<std::uint32_t> hold(PeerId peer, bool even_if_ready);
  // As Core has it.
  std::optional<std::uint32_t> received_before_end(PeerId peer);
  // The peer, which holds the session too, has received so many of our frames. Returns the others:
  // `discard` each after `carry` has copied it. From then on frames are turned away
  // (Status::elsewhere) until there is a connection. Nothing if the session is not held any more.
  std::optional<std::vector<SendSlot*>> give_away(PeerId peer, std::uint32_t received);
  // The frames that wait for a connection which begins a session; `discard` each, as above.
  std::vector<SendSlot*> take_unsent(PeerId peer);
  void let_go(PeerId peer);
  // False if there is no connection, or no room.
  bool send_handover(PeerId peer, const HandoverMessage& message);
  // Among rails: from now on `news` is set when there is some, and the event thread calls `serve`,
  // without the lock. Before `start`.
  void watch_links(std::atomic<bool>& news, std::function<void()> serve) {
    link_news_ = &news;
    serve_links_ = std::move(serve);
  }
  // The news since the last call, oldest first. `taken` is empty.
  void take_links(std::vector<LinkNews>& taken) {
    std::lock_guard guard(lock_);
    taken.swap(arrived_links_);
  }
  // Sends a copy of a frame that another rail gave away.
  Status carry(PeerId peer, const SendSlot& frame);
  // Takes back the movable transfers with the peer that are neither under way nor in doubt.
  std::vector<TransferRequest> withdraw(PeerId peer);

  // ---- large messages and one-sided ----

  // Takes every get, put or atomic; the handler hears of its end. The memory stays registered and
  // untouched until then.
  [[gnu::hot]] void transfer(const TransferRequest& request) {
    std::lock_guard guard(lock_);
    core_.transfer(now(), request, out_);
    finish_transfer();
  }

  // Asks for a connection to the peer, if there is none. True if it is ready.
  bool connect(PeerId peer) {
    std::lock_guard guard(lock_);
    core_.connect(clock(), peer, out_);
    if (!out_.empty()) flush();
    return core_.is_ready(peer);
  }

  // ---- progress ----

  // Polls once and hands up what has come. `Handler` has
  //   void on_message(const Delivery&)
  //   void on_retired(SendSlot*, bool delivered)     for slots sent with `notify`
  //   void on_transfer(const TransferEnd&)
  //   void on_failure(const Failure&)
  //   void on_refusal(const Refusal&)                the first few only
  //   void on_warning(const std::string& what)       something the job goes on without
  //   void on_breakdown(const std::string& what)     once: the adapter is broken, and nobody can be
  //                                                  reached any more (failures follow)
  //   void on_wanted(PeerName)                       may be absent; others have frames to relay to
  //                                                  that process, not named by `add_peer` yet
  // Returns how many things were handed up. What a handler throws comes through; what it was called
  // with counts as handed up, and the rest is handed up by the next call.
  template <typename Handler>
  int progress(Handler&& handler) {
    if (!fetch()) return 0;
    return hand_up_taken(handler, [](int) { return true; });
  }

  // ---- standing in for an application that computes ----

  // `bell`, an eventfd, is rung when something waits that only `progress` or `stand_in` hands up,
  // and not again before `waits_for_application` has said no. Stays open as long as the engine.
  // `visited` is the engine whose `progress` the application calls whenever it calls MPI, this one or
  // that of the first rail; its visits count. It outlives the event thread.
  void set_bell(int bell, const Engine& visited) {
    std::lock_guard guard(lock_);
    bell_ = bell;
    application_visits_ = &visited.visits_;
  }
  // Whether there is something that `stand_in` could hand up now. `visits` counts the calls of
  // `progress`: who finds it unchanged after a while knows that the application is away.
  bool waits_for_application(std::uint64_t& visits);
  // The same number, without the question.
  std::uint64_t visits() const { return visits_.load(std::memory_order_relaxed); }
  // What it was when the bell rang: then the application had been away for a while.
  std::uint64_t visits_when_rung();
  // It rang, and there was nothing to hand up.
  void rang_in_vain();
  // Like `progress`, for one thread that is none of the application's: hands up things as long as
  // `goes_on(count)` and there are no more visits than `visits`. Leaves everything to the
  // application if there is something among it that only the application is to hear of (a failure,
  // say).
  template <typename Handler, typename GoesOn>
  int stand_in(Handler&& handler, std::uint64_t visits, GoesOn&& goes_on) {
    if (!fetch_standing_in(&visits)) return 0;
    return hand_up_taken(
        handler, [&](int count) { return goes_on(count) && visits == application_visits(); });
  }
  // The same from within a handler of `stand_in`: whatever the application does, it has to wait.
  template <typename Handler>
  int stand_in_further(Handler&& handler) {
    if (!fetch_standing_in(nullptr)) return 0;
    return hand_up_taken(handler, [](int) { return true; });
  }

  // ---- leaving ----

  // Sends what is pending to these peers, says goodbye and drops the connections, all at the same
  // time; calls `progress` with `handler` meanwhile. Returns how many of them had to be left with
  // sends under way, because the close deadline came first.
  template <typename Handler>
  std::size_t close(std::span<const PeerId> peers, Handler&& handler) {
    const Time deadline = clock() + options_.close_timeout;
    while (!try_close(peers)) {
      if (clock() >= deadline) return abandon(peers);
      progress(handler);
    }
    return 0;
  }

  // Closes all peers at once, then stops the event thread. Messages that arrive meanwhile still go
  // to `handler`. False if the close deadline came first.
  template <typename Handler>
  bool shutdown(Handler&& handler) {
    const Time deadline = clock() + options_.close_timeout;
    bool clean = true;
    while (!try_close_all()) {
      if (clock() >= deadline) {
        abandon_all();
        clean = false;
        break;
      }
      progress(handler);
    }
    stop();
    return clean;
  }

  // ---- looking in ----

  [[gnu::hot]] static Time clock();  // monotonic
  const Options& options() const { return options_; }
  const verbs::Device& device() const { return device_; }
  const verbs::PortChoice& port() const { return device_.port(); }
  const Counters& counters() const { return core_.counters(); }
  // All counters at one moment.
  Counters snapshot() {
    std::lock_guard guard(lock_);
    return core_.counters();
  }
  // Counts what the layer above does, so that it is shown with the rest.
  void count(std::uint64_t Counters::*counter, std::uint64_t more = 1) {
    std::lock_guard guard(lock_);
    core_.counters().*counter += more;
  }
  PeerName name(PeerId peer);
  PeerState state(PeerId peer) {
    std::lock_guard guard(lock_);
    return core_.state(peer);
  }
  std::uint32_t max_payload_bytes() const { return core_.max_payload_bytes(); }

  // Why this process shares no memory with the node's others; "" if it does, or is not to.
  const std::string& why_no_node() const { return why_no_node_; }

  // What is under way or lent out. All zero once all peers are left and everything is handed up;
  // anything else is a leak. Walks lists.
  struct Remains {
    std::uint64_t transfers = 0;  // gets, puts and atomics whose end was not reported
    std::uint64_t chunks = 0;     // their chunks that the adapter has
    std::uint64_t pending_frames = 0;
    std::uint64_t send_slots = 0;
    std::uint64_t receive_buffers = 0;  // with messages that are still in use
    std::uint64_t credits = 0;          // credits that peers hold
  };
  Remains remains();

 private:
  // What is handed up besides messages and the ends of transfers.
  struct Notice {
    enum class Kind : std::uint8_t {
      retired,
      failure,
      refusal,
      warning,
      breakdown,
      wanted
    } kind;
    Retired retired{};
    struct Rare {  // the end of a send should not pay for its size
      Failure failure{};
      PeerName wanted{};
      Refusal refusal{};
      std::string words{};
    };
    std::unique_ptr<Rare> rare;

    explicit Notice(const Retired& slot) : kind(Kind::retired), retired(slot) {}
    explicit Notice(const Failure& peer) : Notice(Kind::failure, {.failure = peer}) {}
    explicit Notice(PeerName name) : Notice(Kind::wanted, {.wanted = name}) {}
    explicit Notice(Refusal&& request) : Notice(Kind::refusal, {.refusal = std::move(request)}) {}
    explicit Notice(std::string&& what, Kind of = Kind::warning)
        : Notice(of, {.words = std::move(what)}) {}

   private:
    Notice(Kind of, Rare&& news) : kind(of), rare(std::make_unique<Rare>(std::move(news))) {}
  };

  // What Driver calls.
  friend class Driver<Engine>;
  Now now() const { return Now(clock); }
  int poll_completions();
  [[gnu::hot, gnu::noinline]] void post_receives();
  [[gnu::hot]] void post_work();
  [[gnu::cold, gnu::noinline]] void arm(SrqArm limit);
  void listen() { queues_->listen(); }
  void advertise_rnr_timer(std::uint8_t code) {
    queues_->advertise_rnr_timer(code);
    call_thread();
  }
  void provide_slab();
  void drop_slab() { receive_slabs_.pop_back(); }
  void carry_out(const ConnectAction& action);
  void hand_up(const Retired& retired);
  void hand_up(const Outage& outage);
  void hand_up(const TransferEnd& end) {
    arrived_ends_.push_back(end);
    news_arrived_ = true;
  }
  // Not for the application: what is to be done about it must not wait while that computes.
  void hand_up(const LinkNews& news);
  template <typename News>
  void hand_up(const News& news) {
    tell(news);
  }
  template <typename... Parts>
  void tell(Parts&&... parts) {
    arrived_notices_.emplace_back(std::forward<Parts>(parts)...);
    news_arrived_ = true;
  }
  void wake_thread();
  static bool is_alive(ProcessId id);
  void reap_node() {
    if (node_ != nullptr) node_->reap();
  }

  Engine(const Options& options, verbs::Device device);

  // Hands up what was taken, as long as `goes_on(count)`; the rest is for the next call.
  template <typename Handler, typename GoesOn>
  [[gnu::hot]] int hand_up_taken(Handler& handler, GoesOn&& goes_on) {
    const Leaving leaving{*this};
    int count = 0;
    for (; !messages_.empty() && goes_on(count); ++count) {
      const InHand in_hand(*this, messages_.pop());
      handler.on_message(in_hand.message);
    }
    if (!messages_.empty() || !has_news_) return count;
    return hand_up_news(handler, goes_on, count);
  }
  // The same for what comes after the messages. A handler may call `progress`, which takes more: so
  // each is handed up from a copy.
  template <typename Handler, typename GoesOn>
  int hand_up_news(Handler& handler, GoesOn& goes_on, int count) {
    for (; !notices_.empty() && goes_on(count); ++count) {
      const Notice notice = std::move(notices_.pop());
      switch (notice.kind) {
        case Notice::Kind::retired:
          handler.on_retired(notice.retired.slot, notice.retired.delivered);
          break;
        case Notice::Kind::failure: handler.on_failure(notice.rare->failure); break;
        case Notice::Kind::refusal: handler.on_refusal(notice.rare->refusal); break;
        case Notice::Kind::warning: handler.on_warning(notice.rare->words); break;
        case Notice::Kind::breakdown: handler.on_breakdown(notice.rare->words); break;
        case Notice::Kind::wanted:
          if constexpr (requires { handler.on_wanted(notice.rare->wanted); })
            handler.on_wanted(notice.rare->wanted);
          break;
      }
    }
    if (!notices_.empty()) return count;  // one may say why a transfer failed
    for (; !ends_.empty() && goes_on(count); ++count) {
      const TransferEnd end = ends_.pop();
      handler.on_transfer(end);
    }
    if (ends_.empty()) has_news_ = false;
    return count;
  }

  // A call of `progress`, and a message that its handler has.
  struct Leaving {
    Engine& engine;
    ~Leaving() { engine.leave_progress(); }
  };
  struct InHand {
    InHand(Engine& of, const Delivery& delivery)
        : engine(of), level(static_cast<std::size_t>(of.progress_depth_) - 1), message(delivery) {
      engine.in_hand_[level] = message.buffer;
    }
    ~InHand() {
      engine.in_hand_[level] = BufferId::none;
      if (level == 0 && engine.postponed_.empty()) [[likely]] {
        if (message.last) engine.note_released(message.buffer);
      } else {
        engine.finish_nested(message);
      }
    }
    Engine& engine;
    const std::size_t level;
    const Delivery message;
  };

  void leave_progress() {
    if (has_held_.load(std::memory_order_relaxed)) post_held();
    if (--progress_depth_ == 0) progress_owner_.store(ThreadMark::none, std::memory_order_release);
  }

  // All of these run with the lock held.
  // Something is not taken yet, or is taken and not handed up yet.
  bool has_arrived() const { return !out_.deliveries.empty() || news_arrived_; }
  bool has_taken() const { return !messages_.empty() || has_news_; }
  void take();
  void enter_progress();
  void finish_send() {
    finish_call();
    if (leaves_work()) [[unlikely]]
      note_pending();
  }
  [[gnu::noinline]] void note_pending();
  void note_owed(Status status) {
    if (status != Status::ok) --owed_;
    call_thread();
  }
  void warn_of_forks(int error);
  void warn_of_small_window();
  [[gnu::cold, gnu::noinline]] void break_down(const std::string& what);
  [[gnu::cold, gnu::noinline]] void refuse_lane(LaneId lane);
  void on_port_event(const ibv_async_event& event);
  bool warns_for_node() const { return options_.node.processes > 0; }
  void await_flush();
  void make_lane_end(const ConnectAction& action);
  void note_refusal(const ConnectAction& action);
  [[gnu::noinline]] void finish_nested(const Delivery& message);
  bool close_one(PeerId peer);
  bool start_thread(std::string& why);
  // Registered memory that a process needs at least.
  std::size_t least_bytes() const {
    return std::size_t{options_.core.window.initial} * options_.core.buffer_bytes +
           SlotPool::least_bytes(options_.core.buffer_bytes);
  }
  void undo_start();

  // What `stand_in` leaves to the application.
  static bool is_for_application(const Notice& notice);
  // Whether there is such a one among what has arrived, and if `taken` among what was taken.
  bool has_news_for_application(bool taken) const;
  bool has_for_stand_in() const;
  void ring();
  [[gnu::cold]] bool met_stand_in(ThreadMark owner);

  // These take the lock.
  [[gnu::hot]] bool fetch();
  // `visits`: as in `stand_in`; nullptr: any.
  bool fetch_standing_in(const std::uint64_t* visits);
  [[gnu::noinline]] void post_held();
  bool try_close(std::span<const PeerId> peers);
  bool try_close_all();
  std::size_t abandon(std::span<const PeerId> peers);
  void abandon_all();
  void stop();

  // node.cc
  void join_node();
  bool shares_tokens() const;
  bool shares_reads() const { return options_.node.share && options_.node.share_reads; }
  bool shares_limits() const { return shares_reads() || shares_tokens(); }
  void tidy_node();
  void count_node();
  void show_board(Time now);
  void open_proxy();
  void join_proxy();

  // The event thread.
  void run_thread();
  [[gnu::noinline]] void serve_connections();
  void serve(const verbs::ConnectionEvent& event);
  void serve_device_events(Time since);

  Options options_;
  verbs::Device device_;
  std::unique_ptr<Segment> node_;
  std::string why_no_node_;
  ShownPeers<Board::most_peers> shown_peers_;
  std::unique_ptr<Segment> proxy_;
  std::string why_no_proxy_;
  verbs::RegisteredMemory cells_;  // of the proxy

  Lock lock_;
  std::unique_ptr<verbs::Queues> queues_;
  std::unique_ptr<verbs::Connections> connections_;
  std::unique_ptr<SlotPool> slots_;
  std::vector<verbs::RegisteredMemory> receive_slabs_;
  int outages_told_ = 0;
  std::uint64_t resent_before_ = 0;      // the last of these
  std::vector<Notice> arrived_notices_;  // not yet taken by `progress`
  std::vector<TransferEnd> arrived_ends_;
  bool news_arrived_ = false;          // there are some of either
  std::vector<LinkNews> arrived_links_;
  std::atomic<bool>* link_news_ = nullptr;  // of whoever serves them
  std::function<void()> serve_links_;
  std::atomic<bool> wants_trains_{true};
  std::atomic<bool> has_held_{false};  // a hint for `progress`: frames wait for the next pump

  // State of the thread inside `progress`; another thread may take over only with the lock held.
  std::atomic<ThreadMark> progress_owner_{ThreadMark::none};
  int progress_depth_ = 0;
  Taken<Delivery> messages_;
  Taken<Notice> notices_;
  Taken<TransferEnd> ends_;
  bool has_news_ = false;            // there may be notices or ends
  std::vector<BufferId> in_hand_;    // buffer of the message being handled, at each depth
  std::vector<BufferId> postponed_;  // released at a greater depth than a message of theirs

  // Of who stands in for the application.
  static constexpr std::memory_order relaxed = std::memory_order_relaxed;
  std::uint64_t application_visits() const { return application_visits_->load(relaxed); }
  std::atomic<std::uint64_t> visits_{0};  // calls of `progress`
  const std::atomic<std::uint64_t>* application_visits_ = &visits_;
  int bell_ = -1;
  bool rung_ = false;
  std::uint64_t rung_at_ = 0;  // visits then
  Absence absence_;
  ThreadMark stand_in_ = ThreadMark::none;
  unsigned meetings_ = 0;  // visits that found it busy

  std::thread thread_;
  bool stopping_ = false;
  bool start_failed_ = false;
  bool small_window_told_ = false;
  bool no_limit_told_ = false;
  bool broken_ = false;  // `break_down` was called
  int port_changes_told_ = 0;
  int wake_fd_ = -1;
  int polls_ = 0;
  Time next_show_{};
  Time tidy_at_ = Time::never();
  Time next_shrink_{};  // of the send slots
};

}  // namespace weir
