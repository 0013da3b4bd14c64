// What an engine does with a core, step by step, above either adapters or a simulator.
//
//   application ──▶ look ──┐                       ┌──▶ receives, work, connections
//                          ├──▶ core ──▶ box ──▶ flush
//   event thread ─▶ attend ┘                       └──▶ reports to the layer above
//
// `Engine` derives from this class and supplies what differs:
//
//   Now now() const                        time of a step that begins
//   int poll_completions()                 hands a batch to the core; its size, 0 or less: none
//   void post_receives(), post_work()      posts those in the box, and clears them
//   void arm(SrqArm), advertise_rnr_timer(code), provide_slab(), drop_slab()
//   void listen()                          for what peers want the event thread to see at once
//   void carry_out(const ConnectAction&)
//   void hand_up(Retired | Failure | Outage | LinkNews | TransferEnd | PeerName)
//   void wake_thread()                     the event thread is asleep, and has to look
//   bool is_alive(ProcessId), void reap_node()   of processes of the node
//
// Pure; the caller serialises. Only a connection request allocates.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/now.h"
#include "transport/core/core.h"
#include "transport/drive/attendance.h"
#include "transport/drive/refusal_rate.h"
#include "transport/drive/request_line.h"

namespace weir {

template <typename Engine>
class Driver {
 public:
  const Core& core() const { return core_; }

 protected:
  Driver(const Core::Config& config, Time now) : core_(config), attendance_(now) {
    released_.reserve(256);
  }
  ~Driver() = default;

  // The usual of what the core wants: receives first, because credits in the work are for them.
  void post_usual() {
    if (!out_.receives.empty()) {
      self().post_receives();
      if (core_.receives_were_low()) [[unlikely]]
        core_.on_reposted(self().now().time(), out_);
    }
    if (std::exchange(out_.arm, false)) [[unlikely]]
      self().arm(out_.srq_arm);
    if (!out_.work.empty()) self().post_work();
  }

  // Carries out what the core wants, in the order that Outbox documents.
  [[gnu::hot, gnu::noinline]] void flush() {
    do {
      const bool rare = std::exchange(out_.rare, false);
      if (rare) [[unlikely]]
        prepare();
      post_usual();
      if (rare) [[unlikely]]
        carry_out_actions();
      // Posting may find a lane broken; its requests are over only when the lane is dropped.
      if (out_.rare) [[unlikely]]
        continue;
      hand_up_all(out_.retired);
      if (rare) [[unlikely]]
        hand_up_rare();
      hand_up_all(out_.transfers);
    } while (!out_.empty());
  }

  // ---- the application ----

  // Ends a call: posts its work. Rare work, and ends of work, take all steps of `flush`.
  void finish_call() {
    if (!out_.rare) [[likely]]
      post_usual();
    if (out_.rare || out_.has_ends()) [[unlikely]]
      flush();
  }
  // The same for a get, put or atomic, which has a deadline and may have to wait.
  void finish_transfer() {
    finish_call();
    call_thread();
  }
  // A call has left pending frames, or tokens that others may wait for.
  bool leaves_work() const { return core_.pending_frames() > 0 || core_.holds_tokens(); }
  // Calls for a later look at the work left.
  void note_work_left() {
    housework_due_ = true;
    call_thread();
  }
  // The event thread must not sleep for long: it has a deadline to keep, or chunks wait, or others
  // of the node wait for what this process has.
  void call_thread() {
    if (!attendance_.asleep() &&
        !(attendance_.is_too_long_for_sharers() && core_.has_what_others_wait_for())) {
      return;
    }
    attendance_.wake();
    self().wake_thread();
  }

  // Looks once at what has arrived. Housework waits for a look that finds nothing, because a
  // message is more urgent.
  void look() {
    core_.begin_round();
    const bool idle = poll() <= 0;
    if (idle ? housework_due_ || !released_.empty() : released_.size() > core_.release_slack()) {
      do_housework(idle);
      housework_due_ = !idle;
    }
    if (core_.waits_for_node()) [[unlikely]] {
      core_.look_at_node(self().now(), out_);
      call_thread();
    }
    if (core_.has_proxy()) [[unlikely]]
      core_.look_at_proxy(self().now(), true, out_);
    if (!out_.empty()) flush();
  }

  // The layer above is done with a buffer; housework returns it. Only for a thread that looks.
  void note_released(BufferId buffer) { released_.push_back(buffer); }

  // Posts frames that were held while messages were handed up.
  void flush_held() {
    core_.pump(self().now(), out_);
    if (!out_.empty()) flush();
  }

  // ---- the event thread ----

  // How long the event thread may sleep.
  Duration nap(Time now) { return attendance_.nap(needs_attendance(), now, core_.next_deadline()); }
  // `wake_thread` woke the event thread.
  void on_woken() { attendance_.on_woken(); }

  // The event thread looks, after it has served the events that woke it: handles what a computing
  // application has left, and deadlines.
  void attend(Time woken) {
    const std::uint64_t waiting = core_.pending_frames();
    const bool absent = attendance_.begin(woken, core_.round());
    if (absent && needs_attendance()) act_for_application();
    attendance_.end(core_.round(), needs_attendance(),
                    core_.pending_frames() < waiting || core_.has_transfers() || owed_ > 0,
                    core_.has_what_others_wait_for());
    const Time now = self().now();
    if (attendance_.is_limit_look_due(now)) {
      self().listen();  // the adapter may have lost the event that would do so
      drain();
      core_.raise_lost_limit(out_);
    }
    if (now >= core_.next_deadline()) {
      // Completions that a computing application left there count, too: the peer is not dead.
      drain();
      core_.on_timer(now, out_);
    }
    look_for_dead(now);
    if (!out_.empty()) flush();
  }

  // Connection management has news, which `step(now)` tells the core. A goodbye or first data that
  // arrived before the news has to be seen first.
  template <typename Step>
  void on_connection_event(Step&& step) {
    drain();
    step(self().now());
    flush();
  }

  // A connection request came. It gets in line, because each takes long to serve. Strangers are
  // refused at once, and hold up no peer.
  void add_request(const RequestLine::Waiting& asked) {
    if (const auto reason = core_.refusal(asked.hello)) {
      const bool answers = refusals_.take(self().now().time());
      core_.counters().refusals_dropped += answers ? 0 : 1;
      return refuse(asked, *reason, answers);
    }
    if (const auto stale = asked_.add(asked)) refuse_stale(*stale);
  }
  // The peer has answered our request. A request of its own that waits is now out of date.
  void on_answer(const Now& now, LaneId lane, const wire::Hello& hello) {
    core_.on_answer(now, lane, hello, out_);
    const PeerId peer = core_.peer_of(lane);
    if (!core_.is_connected(peer)) return;
    if (const auto stale = asked_.drop(core_.name(peer))) {
      core_.note_requests(asked_.size());
      refuse_stale(*stale);
    }
  }
  // Whether the request that has waited longest may be served. If it needs another connection to
  // end, that begins now.
  bool may_serve_request() {
    if (asked_.empty()) return false;
    const wire::Hello& hello = asked_.first();
    if (!hello.resumes && core_.is_leaving(hello.from)) {
      asked_.pass_over();
      return false;
    }
    const bool may = core_.may_take_request(self().now(), hello, asked_.size(), out_);
    if (!out_.empty()) flush();
    return may;
  }
  // Each thread serves one each time it has the lock, so that messages get in between when many
  // ask at the same time.
  [[gnu::noinline]] void serve_request() {
    drain();
    if (may_serve_request()) {
      const RequestLine::Waiting asked = asked_.take();
      core_.make_way(self().now(), asked.hello, out_);
      flush();
      core_.on_request(self().now(), asked.request, asked.hello, out_);
    }
    flush();
  }
  bool has_requests() const { return !asked_.empty(); }

  // The process is dead, as the runtime says. What it had of the node comes back at once, too.
  void give_up_dead(PeerId peer) {
    drain();  // what has arrived counts
    const Time now = self().now();
    core_.give_up_dead(now, peer, out_);
    flush();
    if (core_.waits_for_node() && waits_since_ == Time::never()) waits_since_ = now;
    next_reap_ = next_look_for_servers_ = now;
    look_for_dead(now);
    flush();
  }

  // The adapter reported an SRQ limit event, and the thread heard of it at `since`. The wait for
  // the lock counts, because a sender would wait for that, too.
  void on_limit_event(Time since) {
    drain();  // judge by current state how far the limit is passed
    core_.on_srq_limit(out_);
    flush();
    core_.note_low_receives(since);
  }

  void drain() {
    while (poll() > 0) continue;
  }

  // When requests of this process were first seen to wait for the node.
  Time waits_for_node_since() const { return waits_since_; }

  void release_handled() {
    for (const BufferId buffer : released_) core_.release(buffer);
    released_.clear();
  }

  Core core_;
  Outbox out_;
  // Sends whose ends must be reported even while the application is absent: their completions wake
  // no thread.
  std::uint32_t owed_ = 0;

 private:
  // A process whose application computes gives finished tokens back in its second tick. Only a
  // process that does not move for longer stands still. The factor has a margin of two, for threads
  // that run late.
  static_assert(4 * Attendance::longest_shared_tick.ns <= NodeLine::patience.ns);

  // After waiting so long, a process checks whether those before it live. That costs system calls.
  static constexpr Duration look_for_dead_after = milliseconds(50);

  Engine& self() { return static_cast<Engine&>(*this); }

  bool needs_attendance() const { return core_.needs_attendance() || owed_ > 0; }

  void refuse_stale(RequestId request) {
    ++core_.counters().requests_stale;
    refuse({request, {}}, wire::Reject::crossed);
  }

  void refuse(const RequestLine::Waiting& asked, wire::Reject reason, bool answers = true) {
    out_.act({.kind = ConnectAction::Kind::reject,
              .request = asked.request,
              .reason = reason,
              .silent = !answers,
              .hello = asked.hello});
    flush();
  }

  // The parts of `flush` for what is rare.
  [[gnu::cold, gnu::noinline]] void prepare() {
    for (; out_.slabs_dropped > 0; --out_.slabs_dropped) self().drop_slab();
    if (out_.slab_buffers > 0) self().provide_slab();
    if (std::exchange(out_.rnr_changed, false)) self().advertise_rnr_timer(out_.rnr_code);
  }
  [[gnu::cold, gnu::noinline]] void carry_out_actions() {
    for (std::size_t i = 0; i < out_.connects.size(); ++i) {
      // Carrying out the last one may have added work: for a lane, perhaps, that this one drops.
      if (!out_.work.empty()) post_usual();
      const ConnectAction action = out_.connects[i];  // carrying it out may add more
      self().carry_out(action);
      // The thread has a deadline to keep now.
      if (action.kind == ConnectAction::Kind::connect) call_thread();
    }
    out_.connects.clear();
    for (SendSlot* const slot : out_.relays_failed) core_.on_relay_failed(slot);
    out_.relays_failed.clear();
  }
  [[gnu::cold, gnu::noinline]] void hand_up_rare() {
    hand_up_all(out_.failures);
    hand_up_all(out_.outages);
    hand_up_all(out_.links);
    hand_up_all(out_.wanted);
  }

  template <typename T>
  void hand_up_all(std::vector<T>& news) {
    for (const T& one : news) self().hand_up(one);
    news.clear();
  }

  int poll() {
    const int count = self().poll_completions();
    if (count > 0) housework_due_ = true;
    return count;
  }

  // `idle`: there was nothing to poll.
  [[gnu::hot, gnu::noinline]] void do_housework(bool idle) {
    if (!released_.empty()) release_handled();
    if (core_.wants_pump()) core_.pump(self().now(), out_);
    core_.give_back_credits(out_);
    if (idle) core_.on_idle(out_);
  }

  // Fetches credits that may have come (messages are kept for the application) and posts what can
  // go.
  void act_for_application() {
    const std::uint64_t before = core_.pending_frames();
    drain();
    core_.pump(self().now(), out_);
    if (core_.waits_for_node()) core_.look_at_node(self().now(), out_);
    if (core_.has_proxy()) core_.look_at_proxy(self().now(), false, out_);
    if (core_.pending_frames() < before) ++core_.counters().late_flushes;
  }

  // Keeps this process from waiting for ever for a dead one.
  void look_for_dead(Time now) {
    if (!core_.waits_for_node()) {
      waits_since_ = Time::never();
    } else if (waits_since_ == Time::never()) {
      waits_since_ = now;
      next_reap_ = now + look_for_dead_after;
    } else if (now >= next_reap_) {
      self().reap_node();
      next_reap_ = self().now() + look_for_dead_after;
      core_.look_at_node(now, out_);
    }
    if (core_.waits_for_server() && now >= next_look_for_servers_) {
      next_look_for_servers_ = now + look_for_dead_after;
      for (const ProcessId id : core_.servers_waited_for()) {
        if (id != ProcessId{} && !self().is_alive(id)) core_.on_process_dead(id);
      }
      core_.look_at_proxy(now, false, out_);
    }
  }

  Attendance attendance_;
  RequestLine asked_;
  RefusalRate refusals_;
  std::vector<BufferId> released_;
  bool housework_due_ = false;        // something happened since the last housework
  Time waits_since_ = Time::never();  // for the node
  Time next_reap_{};
  Time next_look_for_servers_{};
};

}  // namespace weir
