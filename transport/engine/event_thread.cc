// The event thread: what must happen although the application computes. It answers connection
// requests, lets the receive window grow, looks after frames that wait (to be bundled, for
// credits), and watches deadlines. It never hands anything up.

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "transport/engine/engine.h"

namespace weir {
namespace {

// How often the thread looks after frames that wait, and how seldom it does when that has not
// helped for a while (a receiver that computes gives no credits).
constexpr int tick_ms = 1;
constexpr int slow_tick_ms = 16;

// How seldom while the application is seen to look after them itself: every 4 ms, and when it has
// for long a sixteenth of that time, so that what it loses when it begins to compute is little
// beside. A wake-up costs a hundred microseconds and more where the machine is emulated, and takes
// the core from whoever had it.
constexpr int attended_tick_ms = 4;
constexpr int most_attended_tick_ms = 32;
constexpr int attended_part = 16;

int attended_tick(Duration attended) {
  const std::int64_t ms = attended.ns / attended_part / 1000000;
  return static_cast<int>(std::clamp<std::int64_t>(ms, attended_tick_ms, most_attended_tick_ms));
}

// Ticks without a waiting frame after which the thread sleeps until it is woken: a burst then
// costs one wake-up, not one for each frame.
constexpr int idle_ticks = 20;

// An SRQ limit event is told once, and may be lost.
constexpr Duration limit_look_interval = seconds(1);

// At most a second: work posted meanwhile may have brought a deadline of its own.
int to_poll_timeout(Time now, Time deadline) {
  if (deadline == Time::never()) return 1000;
  const std::int64_t ms = (deadline - now).ns / 1000000 + 1;
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, 1000));
}

}  // namespace

void Engine::wake_thread() {
  thread_sleeps_.store(false, std::memory_order_relaxed);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void Engine::run_thread() {
  pthread_setname_np(pthread_self(), "weir-events");
  const int device_fd = device_.context()->async_fd;
  fcntl(device_fd, F_SETFL, fcntl(device_fd, F_GETFL) | O_NONBLOCK);

  int quiet_ticks = idle_ticks;
  int tick = tick_ms;
  Time unattended = clock();  // when the application was last seen to be elsewhere
  Time next_limit_look = clock() + limit_look_interval;
  for (;;) {
    int timeout = tick;
    {
      std::lock_guard guard(lock_);
      if (stopping_) return;
      if (quiet_ticks >= idle_ticks && !core_.needs_attendance()) {
        thread_sleeps_.store(true, std::memory_order_relaxed);
        timeout = to_poll_timeout(clock(), core_.next_deadline());
      }
    }
    std::array<pollfd, 4> fds{{{wake_fd_, POLLIN, 0},
                               {connections_->fd(), POLLIN, 0},
                               {device_fd, POLLIN, 0},
                               {queues_->event_fd(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), timeout);
    thread_sleeps_.store(false, std::memory_order_relaxed);
    const Time woken = clock();

    std::lock_guard guard(lock_);
    if (stopping_) return;
    if ((fds[0].revents & POLLIN) != 0) {
      std::uint64_t count;
      [[maybe_unused]] const ssize_t got = ::read(wake_fd_, &count, sizeof count);
      quiet_ticks = 0;
      tick = tick_ms;
    }
    if ((fds[1].revents & POLLIN) != 0) serve_connections();
    if ((fds[2].revents & POLLIN) != 0) serve_device_events(woken);
    if ((fds[3].revents & POLLIN) != 0) {
      queues_->take_events();
      drain_completions();
    }

    const std::uint64_t waiting = core_.pending_frames();
    const bool attended = core_.round() != round_seen_by_thread_;
    if (!attended) unattended = woken;
    if (core_.needs_attendance() && !attended) stand_in();
    const bool helped = core_.pending_frames() < waiting || core_.has_transfers();
    if (attended) {
      tick = std::min(tick * 2, attended_tick(woken - unattended));
    } else {
      tick = helped ? tick_ms : std::min(tick * 2, slow_tick_ms);
    }
    quiet_ticks = core_.needs_attendance() ? 0 : std::min(quiet_ticks + 1, idle_ticks);
    round_seen_by_thread_ = core_.round();

    const Time now = clock();
    if (now >= next_limit_look) {
      next_limit_look = now + limit_look_interval;
      drain_completions();
      core_.raise_lost_limit(out_);
    }
    if (now >= core_.next_deadline()) {
      // What an application that computes left there counts too, and is no sign of a dead peer.
      drain_completions();
      core_.on_timer(now, out_);
    }
    if (node_ != nullptr) look_after_node(now);
    if (now >= tidy_at_) {
      tidy_node();
      count_node();
    }
    if (core_.waits_for_server()) look_after_proxy(now);
    if (!out_.empty()) flush();
  }
}

// A whole tick without progress by the application, and frames wait: it is elsewhere. Fetches the
// credits that may have come (messages are kept for the application) and posts what can go.
void Engine::stand_in() {
  if (is_paced()) return;
  const std::uint64_t before = core_.pending_frames();
  drain_completions();
  core_.pump(Now(clock), out_);
  if (core_.waits_for_node()) core_.look_at_node(clock(), out_);
  if (core_.has_proxy()) core_.look_at_proxy(clock(), false, out_);
  if (core_.pending_frames() < before) ++core_.counters().late_flushes;
}

void Engine::serve_connections() {
  using Kind = verbs::ConnectionEvent::Kind;
  while (const std::optional<verbs::ConnectionEvent> event = connections_->next()) {
    const Time now = clock();
    drain_completions();  // a goodbye, or first data, that arrived before has to be seen before
    switch (event->kind) {
      case Kind::request: core_.on_request(now, event->request, event->hello, out_); break;
      case Kind::answer: core_.on_answer(now, event->lane, event->hello, out_); break;
      case Kind::established: core_.on_established(now, event->lane, out_); break;
      case Kind::rejected: core_.on_rejected(now, event->lane, event->reject, out_); break;
      case Kind::failed: core_.on_connect_failed(now, event->lane, event->reason, out_); break;
      case Kind::disconnected: core_.on_disconnected(now, event->lane, out_); break;
    }
    flush();
  }
}

// The thread was told at `since`; waiting for the lock is part of what a sender would wait for.
void Engine::serve_limit_event(Time since) {
  drain_completions();  // how far the limit is passed is to be judged by what is there now
  const std::uint64_t posted = core_.counters().receives_posted;
  core_.on_srq_limit(out_);
  flush();
  if (core_.counters().receives_posted > posted) core_.on_reposted(clock() - since, out_);
}

void Engine::serve_device_events(Time since) {
  ibv_async_event event{};
  while (ibv_get_async_event(device_.context(), &event) == 0) {
    switch (event.event_type) {
      case IBV_EVENT_SRQ_LIMIT_REACHED: serve_limit_event(since); break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR: {
        const LaneId lane = queues_->lane_of(event.element.qp->qp_num);
        if (lane != LaneId::none) core_.on_lane_error(clock(), lane, out_);
        break;
      }
      default: break;  // ports and paths: their queue pairs report what it meant for them
    }
    ibv_ack_async_event(&event);
    flush();
  }
}

}  // namespace weir
