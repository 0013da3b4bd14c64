// The simulator's counterpart of transport/engine: the steps that ship (transport/drive), over the
// model of an adapter and of the connection manager. The event thread is events of the virtual
// clock: it sleeps as long as the real one would.
//
// With somebody who stands in for an application that computes, it hears of solicited frames.
//
// What it checks on the way: the core asks for no timer in the past, credits and buffers add up,
// memory that the adapter may write to is not given back. What waits for the application of one
// that has somebody to stand in for it does not wait longer than a look at it may take.
//
// Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/sim/connections.h"
#include "tools/sim/fabric.h"
#include "tools/sim/host.h"
#include "tools/sim/nic.h"
#include "transport/core/core.h"
#include "transport/drive/absence.h"
#include "transport/drive/driver.h"
#include "transport/drive/stand_in_loop.h"

namespace weir::sim {

// What `Engine::progress` hands up.
class Upcalls {
 public:
  virtual ~Upcalls() = default;
  // The buffer is the receiver's until it says `Engine::release`, once for each with `last`.
  virtual void on_message(const Delivery& delivery) = 0;
  virtual void on_retired(SendSlot* slot, bool delivered) = 0;  // of slots sent with `notify`
  virtual void on_failure(const Failure& failure) = 0;
  virtual void on_transfer(const TransferEnd&) {}
};

class Engine : private Driver<Engine>, private StandInLoop<Engine> {
 public:
  struct Config {
    Core::Config core;
    Nic::Config nic;
    std::uint32_t poll_batch = 32;
    std::uint32_t slab_limit = UINT32_MAX;  // receive buffers that memory can be had for
    std::uint32_t proxy_servers = 0;        // of a host
    bool own_reads = false;  // what processes of a host share, the read budget is not a part of
  };

  // With a `host` it shares what processes of a node share with the others there.
  Engine(Fabric& fabric, Connections& connections, Node node, const Config& config,
         Host* host = nullptr);

  // Where a peer is. Every process knows every other from the start.
  PeerId add_peer(PeerName name, Node node);
  void expect_peers(std::uint32_t count) { core_.expect_peers(count); }

  // ---- sending ----
  SendSlot* acquire(std::uint32_t payload_bytes);
  void discard(SendSlot* slot);
  Status send(PeerId peer, SendSlot* slot, std::uint32_t length_bytes, std::uint8_t tag,
              bool must_take);
  // `fill(std::byte*)` writes the message.
  template <typename Fill>
  Status send_filled(PeerId peer, std::uint32_t length_bytes, std::uint8_t tag, Fill&& fill) {
    if (std::byte* at = core_.append(peer, length_bytes, tag)) {
      fill(at);
      return Status::ok;
    }
    const bool bundle = core_.would_hold(peer) && length_bytes <= config_.core.bundle_message_bytes;
    SendSlot* slot = acquire(bundle ? core_.max_payload_bytes() : length_bytes);
    fill(slot->payload());
    const Status status = send(peer, slot, length_bytes, tag, false);
    if (status != Status::ok) discard(slot);
    return status;
  }

  // As transport/engine has them.
  template <typename Fill>
  Status send_train(PeerId peer, std::uint32_t cars, Fill&& fill) {
    const Status admitted = core_.admit_train(peer);
    if (admitted != Status::ok) return admitted;
    for (std::uint32_t i = 0; i < cars; ++i) {
      SendSlot* const slot = acquire(core_.max_payload_bytes());
      const std::uint32_t bytes = fill(i, slot->payload());
      core_.send_car(now(), peer, slot, bytes, i + 1 == cars, out_);
    }
    finish_send();
    return Status::ok;
  }
  void let_train(PeerId peer, bool may) {
    core_.let_train(peer, may, out_);
    settle();
  }

  // A get, put or atomic.
  void transfer(const TransferRequest& request) {
    core_.transfer(now(), request, out_);
    if (!dead_) finish_transfer();
    settle();
  }

  // ---- among rails, as transport/engine has it ----
  // `serve` is called by the event thread when there is news.
  void watch_links(std::function<void()> serve) { serve_links_ = std::move(serve); }
  std::vector<LinkNews> take_links() { return std::exchange(arrived_links_, {}); }
  bool connect(PeerId peer) {
    core_.connect(now(), peer, out_);
    settle();
    return core_.state(peer) == PeerState::ready;
  }
  std::optional<std::uint32_t> hold(PeerId peer, bool even_if_ready);
  std::optional<std::uint32_t> received_before_end(PeerId peer) const {
    return core_.received_before_end(peer);
  }
  std::optional<std::vector<SendSlot*>> give_away(PeerId peer, std::uint32_t received);
  std::vector<SendSlot*> take_unsent(PeerId peer) {
    std::vector<SendSlot*> frames;
    core_.take_unsent(peer, [&](SendSlot* slot) { frames.push_back(slot); });
    return frames;
  }
  void let_go(PeerId peer) {
    core_.let_go(now(), peer, out_);
    settle();
  }
  bool send_handover(PeerId peer, const HandoverMessage& message) {
    const bool sent = core_.send_handover(peer, message, out_);
    settle();
    return sent;
  }
  Status carry(PeerId peer, const SendSlot& frame);
  std::vector<TransferRequest> withdraw(PeerId peer);

  // ---- progress ----
  // Polls once and hands up what has come. Returns how many things that was.
  int progress(Upcalls& upcalls);
  // Hands up what came for an application that has not called `progress` for a while. Before the
  // first frame, or never.
  void let_stand_in(Upcalls& upcalls);
  // How often that was done, and how many things that were.
  struct StoodIn {
    std::uint64_t wakeups = 0;
    std::uint64_t upcalls = 0;
  };
  const StoodIn& stood_in() const { return stood_in_; }
  // A violation if something waits for somebody to hand it up that should have been by now.
  void check_nobody_waits();
  // The application is done with a buffer; it goes back at the next progress.
  void release(BufferId buffer) { note_released(buffer); }

  // ---- leaving ----
  bool try_close(PeerId peer) {
    core_.close(now(), peer, out_);
    settle();
    return core_.closed(peer);
  }
  bool try_close_all() {
    bool all = true;
    for (std::uint32_t i = 0; i < core_.peer_count(); ++i) all = try_close(PeerId{i}) && all;
    return all;
  }
  void abandon_all() {
    for (std::uint32_t i = 0; i < core_.peer_count(); ++i) core_.abandon(now(), PeerId{i}, out_);
    settle();
  }

  // Other limits from here on.
  void limit(const CoreLimits& limits) {
    core_.limit(now(), limits, out_);
    settle();
  }

  // ---- trouble ----
  // The event thread hears that the port is down.
  void lose_port();
  // The process dies. With `told`, its kernel closes its connections.
  void kill(bool told);
  bool dead() const { return dead_; }

  // ---- looking in ----
  using Driver<Engine>::core;
  const Nic& nic() const { return nic_; }
  Nic& nic() { return nic_; }
  Node node() const { return nic_.node(); }
  bool idle() const {
    return core_.pending_frames() == 0 && arrived_.empty() && out_.deliveries.empty();
  }
  // A violation unless all that was lent is back, and nothing is under way.
  void check_at_rest() const;
  std::uint64_t slabs_dropped() const { return slabs_dropped_; }
  // What the processes of its host share; nullptr: it shares nothing.
  const Host::Door* door() const { return door_.get(); }
  // Takes back what dead processes of the host held.
  void reap() {
    if (door_ != nullptr && !dead_) host_->reap(*door_);
  }

 private:
  struct LanePair {
    QpNumber qp = QpNumber::none;
    EndId end = EndId::none;
  };

  struct Slab {
    std::unique_ptr<std::byte[]> memory;
    std::uint64_t bytes;
  };

  struct SlotMemory {
    SendSlot slot;
    std::unique_ptr<std::byte[]> memory;
  };

  // What Driver wants done.
  friend class Driver<Engine>;
  Now now() const { return fabric_.events.now(); }
  int poll_completions();
  void post_receives();
  void post_work();
  void arm(SrqArm limit) {
    fabric_.note(limit.limit);
    nic_.arm(limit);
  }
  void listen() { nic_.listen(); }
  void advertise_rnr_timer(std::uint8_t code) {
    fabric_.note(code);
    nic_.advertise_rnr_timer(rnr_timer_duration(code));
  }
  void provide_slab();
  void drop_slab();
  void carry_out(const ConnectAction& action);
  void hand_up(const Retired& retired);
  void hand_up(const Failure& failure);
  void hand_up(const Outage& outage) { fabric_.note(index(outage.peer), outage.over); }
  void hand_up(const LinkNews& news);
  void hand_up(const TransferEnd& end);
  void hand_up(PeerName) {}  // all know all
  void wake_thread() {
    soon([this] { on_woken(); });
  }
  bool is_alive(ProcessId id) const { return host_->lives(id); }
  void reap_node() { reap(); }

  // What StandInLoop wants done.
  friend class StandInLoop<Engine>;
  bool waits(std::uint64_t& visits) {
    visits = visits_;
    return !dead_ && absence_.still_waits(has_for_stand_in());
  }
  int hand_up_some(std::uint64_t visits);
  void called_in_vain() { absence_.was_in_vain(); }

  // Carries out what is in the box, and looks at what became of the rest.
  void settle();
  void finish_send();
  void make_lane_end(const ConnectAction& action);
  void join_proxy();
  void spoil_free_cells();
  void check() {
    if (!core_.conserved()) fabric_.violation("buffers or credits do not add up");
  }

  // The event thread hears of something a little later, in order, and runs `step`.
  void soon(EventQueue::Action step) {
    thread_free_ = std::max(
        thread_free_, fabric_.events.now() + fabric_.random.up_to(fabric_.timing.event_thread));
    fabric_.events.at(thread_free_, [this, step = std::move(step)] { run_thread(step); });
  }
  void run_thread(const EventQueue::Action& step);
  int hand_up_all(Upcalls& upcalls);
  void hear_event();
  bool has_for_stand_in() const;
  void ring();
  void stand_in() {
    const std::optional<Duration> pause = turn();
    if (pause) fabric_.events.after(*pause, [this] { stand_in(); });
  }
  void serve_requests();
  void begin_service();
  void sleep();
  void hear(EndId end, const ConnectionNews& news);
  void on_news(const Now& now, LaneId lane, EndId end, const ConnectionNews& news);
  void forget(LaneId lane);

  Fabric& fabric_;
  Connections& connections_;
  Config config_;
  Nic nic_;
  Host* host_;
  std::unique_ptr<Host::Door> door_;
  bool dead_ = false;

  std::map<LaneId, LanePair> lanes_;
  std::unordered_map<QpNumber, LaneId> lane_of_qp_;
  std::map<EndId, LaneId> lane_of_end_;
  std::map<RequestId, EndId> requests_;
  std::uint64_t next_request_ = 1;
  bool serves_ = false;  // a request

  std::deque<std::function<void(Upcalls&)>> arrived_;
  std::uint32_t failures_arrived_ = 0;  // of these: only the application is to hear of them

  std::vector<LinkNews> arrived_links_;
  std::function<void()> serve_links_;  // empty: there is one rail

  // Of who stands in for the application.
  Upcalls* stand_in_ = nullptr;
  Absence absence_;
  bool event_came_ = false;  // and was not taken yet
  std::uint64_t visits_ = 0;          // calls of `progress`
  Time visited_at_{};                 // the last
  Time waits_since_ = Time::never();  // when something was first seen to, that is not handed up yet
  std::uint64_t upcalls_seen_ = 0;
  StoodIn stood_in_;

  std::vector<Slab> slabs_;
  std::uint64_t slabs_dropped_ = 0;
  std::deque<SlotMemory> slots_;
  std::array<std::vector<SendSlot*>, 2> free_slots_;
  std::size_t slots_lent_ = 0;

  Time thread_free_{};                     // when the event thread has done what it heard of
  std::uint32_t turns_at_once_ = 0;        // of the event thread, because the core wanted them
  std::uint64_t naps_ = 0;                 // of the event thread; the last one is under way
  std::uint32_t free_cells_ = UINT32_MAX;  // when they were spoiled
};

}  // namespace weir::sim
