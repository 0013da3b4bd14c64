// Drives the protocol core over one RDMA port: lock, clock, event thread, connections.
//
//   application threads            event thread (one)
//   send, progress                 connection events, SRQ limit, port events, deadlines
//        └──────── lock ───────────────┘
//                VerbsDriver: core ─▶ Outbox ─▶ verbs
//
// The engine is a lock around parts, each of which owns its state:
//   VerbsDriver   core, queues, connections, receive memory; what drive/driver.h wants done
//   SlotPool      registered memory of frames to send
//   Inbox         what arrived and is to be handed up; which thread hands it up
//   LinkInbox     news of connections, for other rails
//   StandIn       visits of the application; the bell of who stands in for it
//   NodeMember    this process's place in the memory of the node, and in the proxy
//   Warnings      how often a user has read which words
//   EventThread   the thread, and what wakes it; its turns are in engine_thread.cc
// The eager path is inlined through them: it has no virtual call.
//
// Thread rule: any thread may call every public function. Messages, retired slots and failures are
// handed up only by `progress` and `stand_in`, without the lock, in order, by one thread at a time.
// A handler may call back into the engine, including `progress`.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/core/core.h"
#include "transport/engine/inbox.h"
#include "transport/engine/lock.h"
#include "transport/engine/options.h"
#include "transport/engine/stand_in.h"
#include "transport/engine/verbs_driver.h"
#include "transport/verbs/device.h"
#include "transport/wire/car.h"

namespace weir {

class Engine {
 public:
  using Options = EngineOptions;

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
  // Whether it is likely to succeed. Makes queues and a thread, and ends them, which took 7 ms in the
  // emulated lab, where opening takes 5 ms. Before the card is published: peers take it for a
  // promise.
  bool can_start(std::string& why) { return driver_.can_start(why); }

  // A peer and where it listens. The same name gives the same id. False, with the reason in `why`,
  // if `card` is no valid card, or of a port that cannot be reached from ours.
  bool add_peer(PeerName name, std::span<const std::byte> card, PeerId& id, std::string& why);
  // The peer with that name, or none.
  PeerId find(PeerName name);
  // The record that the caller keeps of a peer; it comes with each message (Delivery::above).
  void set_above(PeerId peer, void* record);
  void* above(PeerId peer);

  // That process is dead, as the runtime says: all that it had of this one comes back, and the
  // handler hears of its failure. Does nothing if the name is not known.
  void give_up_dead(PeerName name);

  // How many peers there may be; only a rise has an effect.
  void expect_peers(std::uint32_t count);

  // ---- sending ----

  // A slot for a message of up to `payload_bytes` (at most max_payload_bytes); nullptr only if
  // there is no memory.
  SendSlot* acquire(std::uint32_t payload_bytes);
  // Gives back a slot that was not sent.
  void discard(SendSlot* slot);
  // Sends the message at slot->payload(). With slot->notify, the handler hears when the slot is
  // retired and then owns it; otherwise the slot is gone. If not `ok`, the caller keeps it.
  Status send(PeerId peer, SendSlot* slot, std::uint32_t length_bytes, std::uint8_t tag,
              bool must_take);
  // Sends a message that `fill(std::byte*)` writes, `length_bytes` long. `fill` runs with the
  // engine's lock held and must not call back. Back-pressure: too many frames wait, for this peer
  // or, with one of them for it, for all.
  template <typename Fill>
  Status send_filled(PeerId peer, std::uint32_t length_bytes, std::uint8_t tag, Fill&& fill);
  // Sends a message as a train of `cars` cars, of which `fill(number, std::byte*)` writes each and
  // returns its length; as `send_filled`.
  template <typename Fill>
  Status send_train(PeerId peer, std::uint32_t cars, Fill&& fill);
  // As Core had it when `progress` looked, or a train was sent. Without the lock.
  bool wants_trains() const { return wants_trains_.load(relaxed); }
  // From now on the peer may send us trains, or may not.
  void let_train(PeerId peer, bool may);

  // ---- large messages and one-sided ----

  // Takes every get, put or atomic; the handler hears of its end. The memory stays registered and
  // untouched until then.
  [[gnu::hot]] void transfer(const TransferRequest& request);

  // Asks for a connection to the peer, if there is none. True if it is ready.
  bool connect(PeerId peer);

  // ---- carrying frames over another rail (engine_rails.cc) ----

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
  void watch_links(Atomic<bool>& news, std::function<void()> serve);
  // The news since the last call, oldest first. `taken` is empty.
  void take_links(std::vector<LinkNews>& taken);
  // Sends a copy of a frame that another rail gave away.
  Status carry(PeerId peer, const SendSlot& frame);
  // Takes back the movable transfers with the peer that are neither under way nor in doubt.
  std::vector<TransferRequest> withdraw(PeerId peer);

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
    return fetch() ? hand_up(handler, [](int) { return true; }) : 0;
  }

  // ---- standing in for an application that computes ----

  // `bell`, an eventfd, is rung when something waits that only `progress` or `stand_in` hands up,
  // and not again before `waits_for_application` has said no. Stays open as long as the engine.
  // `visited` is the engine whose `progress` the application calls whenever it calls MPI, this one
  // or that of the first rail; its visits count. It outlives the event thread.
  void set_bell(int bell, const Engine& visited);
  // Whether there is something that `stand_in` could hand up now. `visits` counts the calls of
  // `progress`: who finds it unchanged after a while knows that the application is away.
  bool waits_for_application(std::uint64_t& visits);
  // The same number, without the question.
  std::uint64_t visits() const { return stand_in_.visits(); }
  // Whether there are more by now, with the lock: a later visit sees what the caller did before.
  bool visited_since(std::uint64_t visits);
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
    return hand_up(handler, [&](int count) {
      return goes_on(count) && visits == stand_in_.application_visits();
    });
  }
  // The same from within a handler of `stand_in`: whatever the application does, it has to wait.
  template <typename Handler>
  int stand_in_further(Handler&& handler) {
    return fetch_standing_in(nullptr) ? hand_up(handler, [](int) { return true; }) : 0;
  }

  // ---- leaving ----

  // Sends what is pending to these peers, says goodbye and drops the connections, all at the same
  // time; calls `progress` with `handler` meanwhile. Returns how many of them had to be left with
  // sends under way, because the close deadline came first.
  template <typename Handler>
  std::size_t close(std::span<const PeerId> peers, Handler&& handler);
  // Closes all peers at once, then stops the event thread. Messages that arrive meanwhile still go
  // to `handler`. False if the close deadline came first.
  template <typename Handler>
  bool shutdown(Handler&& handler);

  // ---- looking in ----

  [[gnu::hot]] static Time clock() { return VerbsDriver::clock(); }  // monotonic
  const Options& options() const { return driver_.options(); }
  const verbs::Device& device() const { return driver_.device(); }
  const verbs::PortChoice& port() const { return device().port(); }
  const Counters& counters() const { return driver_.core().counters(); }
  // All counters at one moment.
  Counters snapshot();
  // Counts what the layer above does, so that it is shown with the rest.
  void count(std::uint64_t Counters::*counter, std::uint64_t more = 1);
  PeerName name(PeerId peer);
  PeerState state(PeerId peer);
  std::uint32_t max_payload_bytes() const { return driver_.core().max_payload_bytes(); }
  // Why this process shares no memory with the node's others; "" if it does, or is not to.
  const std::string& why_no_node() const { return driver_.node().why_not(); }

  using Remains = weir::Remains;
  Remains remains();

 private:
  static constexpr std::memory_order relaxed = std::memory_order_relaxed;

  Engine(const Options& options, verbs::Device device) : driver_(options, std::move(device)) {}

  Core& core() { return driver_.core(); }
  const Core& core() const { return driver_.core(); }
  Outbox& out() { return driver_.out(); }

  // With the lock held.
  bool has_for_stand_in() const;
  bool close_one(PeerId peer);

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

  template <typename Handler, typename GoesOn>
  [[gnu::hot, gnu::always_inline]] int hand_up(Handler& handler, GoesOn&& goes_on);
  void leave_progress() {
    if (driver_.holds_frames()) post_held();
    driver_.inbox().leave();
  }

  // engine_thread.cc
  struct Turn;
  void run_thread();
  Turn begin_turn(bool first);

  Lock lock_;
  VerbsDriver driver_;
  StandIn stand_in_;
  std::atomic<bool> wants_trains_{true};
  bool start_failed_ = false;
  bool stopping_ = false;
  int polls_ = 0;
  Time next_shrink_{};  // of the send slots
};

// ---- the fast paths ----

inline SendSlot* Engine::acquire(std::uint32_t payload_bytes) {
  std::lock_guard guard(lock_);
  return driver_.slots().get(SlotPool::size_for(payload_bytes));
}

inline void Engine::discard(SendSlot* slot) {
  std::lock_guard guard(lock_);
  driver_.slots().put(slot);
}

inline Status Engine::send(PeerId peer, SendSlot* slot, std::uint32_t length_bytes,
                           std::uint8_t tag, bool must_take) {
  std::lock_guard guard(lock_);
  const bool owes = stand_in_.has_bell() && slot->notify;
  driver_.owe(owes);
  const Status status = core().send(driver_.now(), peer, slot, length_bytes, tag, must_take, out());
  if (owes) driver_.note_owed(status);
  driver_.finish_send();
  return status;
}

template <typename Fill>
Status Engine::send_filled(PeerId peer, std::uint32_t length_bytes, std::uint8_t tag, Fill&& fill) {
  std::lock_guard guard(lock_);
  SlotPool& slots = driver_.slots();
  SlotPool::Size size = SlotPool::size_for(length_bytes);
  if (core().would_hold(peer)) {
    if (std::byte* at = core().append(peer, length_bytes, tag)) {
      fill(at);
      return Status::ok;
    }
    if (length_bytes <= options().core.bundle_message_bytes) size = SlotPool::full;
  }
  SendSlot* slot = slots.get_within(size);
  if (slot == nullptr) [[unlikely]] {
    slot = core().has_pending(peer) ? nullptr : slots.get(size);
    if (slot == nullptr) {
      ++core().counters().back_pressure;
      return Status::back_pressure;
    }
  }
  fill(slot->payload());
  const Status status = core().send(driver_.now(), peer, slot, length_bytes, tag, false, out());
  if (status != Status::ok) slots.put(slot);
  driver_.finish_send();
  return status;
}

template <typename Fill>
Status Engine::send_train(PeerId peer, std::uint32_t cars, Fill&& fill) {
  std::lock_guard guard(lock_);
  const Status admitted = core().admit_train(peer);
  if (admitted != Status::ok) return admitted;
  SlotPool& taken_from = driver_.slots();
  std::array<SendSlot*, wire::most_cars> slots;
  for (std::uint32_t i = 0; i < cars; ++i) {
    slots[i] = taken_from.get_within(SlotPool::full);
    if (slots[i] != nullptr) [[likely]]
      continue;
    while (i > 0) taken_from.put(slots[--i]);
    return Status::back_pressure;
  }
  for (std::uint32_t i = 0; i < cars; ++i) {
    const std::uint32_t bytes = fill(i, slots[i]->payload());
    core().send_car(driver_.now(), peer, slots[i], bytes, i + 1 == cars, out());
  }
  wants_trains_.store(core().wants_trains(), relaxed);
  driver_.finish_send();
  return Status::ok;
}

inline void Engine::transfer(const TransferRequest& request) {
  std::lock_guard guard(lock_);
  core().transfer(driver_.now(), request, out());
  driver_.finish_transfer();
}

inline bool Engine::connect(PeerId peer) {
  std::lock_guard guard(lock_);
  core().connect(clock(), peer, out());
  driver_.settle();
  return core().is_ready(peer);
}

// Hands up what was taken, as long as `goes_on(count)`; the rest is for the next call.
template <typename Handler, typename GoesOn>
inline int Engine::hand_up(Handler& handler, GoesOn&& goes_on) {
  const struct Leaving {
    Engine& engine;
    ~Leaving() { engine.leave_progress(); }
  } leaving{*this};
  return driver_.inbox().hand_up(handler, goes_on,
                                 [this](BufferId buffer) { driver_.note_released(buffer); });
}

template <typename Handler>
std::size_t Engine::close(std::span<const PeerId> peers, Handler&& handler) {
  const Time deadline = clock() + options().close_timeout;
  while (!try_close(peers)) {
    if (clock() >= deadline) return abandon(peers);
    progress(handler);
  }
  return 0;
}

template <typename Handler>
bool Engine::shutdown(Handler&& handler) {
  const Time deadline = clock() + options().close_timeout;
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

}  // namespace weir
