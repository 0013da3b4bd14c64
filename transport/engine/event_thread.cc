// The event thread: everything that must happen even while the application computes. It answers
// connection requests, lets the receive window grow, looks after frames that wait (to be bundled,
// for credits), watches deadlines, and moves the frames of rails that broke. It never hands
// anything up; it rings for the thread that stands in for the application, if there is one.

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "transport/engine/engine.h"

namespace weir {
namespace {

// Downs and ups of the port that are reported.
constexpr int port_changes_told = 8;

// Each is a system call under the lock; this many fit into a tick of a millisecond.
constexpr std::size_t rnr_timers_at_once = 8;

// Refusing a stranger is a system call, too.
constexpr int connection_events_at_once = 16;

constexpr Duration slots_shrink_interval = seconds(1);

}  // namespace

void Engine::wake_thread() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void Engine::run_thread() {
  pthread_setname_np(pthread_self(), "weir-events");
  const int device_fd = device_.context()->async_fd;
  fcntl(device_fd, F_SETFL, fcntl(device_fd, F_GETFL) | O_NONBLOCK);

  for (bool first = true;; first = false) {
    if (link_news_ != nullptr && link_news_->load(std::memory_order_acquire)) serve_links_();
    Duration nap{};
    bool asked = false;
    bool lacks_pair = false;
    bool listens = true;
    std::uint32_t inline_bytes = 0;
    {
      std::lock_guard guard(lock_);
      if (stopping_) return;
      asked = may_serve_request();
      nap = absence_.nap(Driver::nap(clock()), clock());
      if (queues_->has_old_rnr_timers()) nap = std::min(nap, milliseconds(1));
      if (asked || first) nap = {};
      listens = absence_.listens();
      lacks_pair = !queues_->has_spare();
      inline_bytes = queues_->inline_bytes();
    }
    std::array<pollfd, 4> fds{{{wake_fd_, POLLIN, 0},
                               {connections_->fd(), POLLIN, 0},
                               {device_fd, POLLIN, 0},
                               {listens ? queues_->event_fd() : -1, POLLIN, 0}}};
    const timespec patience{nap.ns / 1000000000, nap.ns % 1000000000};
    ::ppoll(fds.data(), fds.size(), &patience, nullptr);
    const Time woken = clock();
    // A pair takes long to make, so it is made without the lock: one for the first connection,
    // whoever asks for it, and one for each request that waits.
    verbs::Queues::Pair spare;
    if (lacks_pair && (asked || first)) spare = queues_->make_spare(inline_bytes);

    std::lock_guard guard(lock_);
    if (stopping_) return;
    if (spare != nullptr) queues_->keep_spare(std::move(spare));
    if ((fds[0].revents & POLLIN) != 0) {
      std::uint64_t count;
      [[maybe_unused]] const ssize_t got = ::read(wake_fd_, &count, sizeof count);
      on_woken();
    }
    // The device first: if it is gone, its connections must not be taken for peers that are gone.
    if ((fds[2].revents & POLLIN) != 0) serve_device_events(woken);
    if ((fds[1].revents & POLLIN) != 0) serve_connections();
    if (asked) serve_request();
    const bool heard = (fds[3].revents & POLLIN) != 0;
    if (heard) {
      queues_->take_events();
      drain();
    }
    attend(woken);
    queues_->adjust_rnr_timers(rnr_timers_at_once);
    if (node_ != nullptr && woken >= next_show_) show_board(woken);
    if (woken >= next_shrink_) {
      next_shrink_ = woken + slots_shrink_interval;
      slots_->shrink();
    }
    if (woken >= tidy_at_) {
      tidy_node();
      count_node();
    }
    if (bell_ >= 0 && absence_.look(woken, application_visits(), heard, has_for_stand_in())) {
      ring();
    }
  }
}

// The rest waits for the next turn: other threads get the lock in between, however many requests
// come.
void Engine::serve_connections() {
  for (int left = connection_events_at_once; left > 0; --left) {
    const std::optional<verbs::ConnectionEvent> event = connections_->next();
    if (!event) return;
    serve(*event);
  }
}

void Engine::serve(const verbs::ConnectionEvent& event) {
  using Kind = verbs::ConnectionEvent::Kind;
  if (event.kind == Kind::request) return add_request({event.request, event.hello});
  on_connection_event([&](const Now& now) {
    switch (event.kind) {
      case Kind::request: break;
      case Kind::answer: Driver::on_answer(now, event.lane, event.hello); break;
      case Kind::established: core_.on_established(now, event.lane, out_); break;
      case Kind::rejected: core_.on_rejected(now, event.lane, event.reject, out_); break;
      case Kind::failed: core_.on_connect_failed(now, event.lane, event.reason, out_); break;
      case Kind::disconnected: core_.on_disconnected(now, event.lane, out_); break;
    }
  });
}

void Engine::serve_device_events(Time since) {
  ibv_async_event event{};
  while (ibv_get_async_event(device_.context(), &event) == 0) {
    switch (event.event_type) {
      case IBV_EVENT_SRQ_LIMIT_REACHED: on_limit_event(since); break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR: {
        const LaneId lane = queues_->lane_of(event.element.qp->qp_num);
        if (lane != LaneId::none) core_.on_lane_error(clock(), lane, out_);
        break;
      }
      case IBV_EVENT_CQ_ERR:
      case IBV_EVENT_SRQ_ERR:
      case IBV_EVENT_DEVICE_FATAL: break_down(ibv_event_type_str(event.event_type)); break;
      case IBV_EVENT_PORT_ERR:
      case IBV_EVENT_PORT_ACTIVE: on_port_event(event); break;
      default: break;  // paths: the queue pairs concerned report the effect
    }
    ibv_ack_async_event(&event);
    flush();
  }
}

// Without other rails the adapter sends again until the port is back, or until retries run out and
// the peers are lost; the reason is then known. Only one process of a job and node reports it.
void Engine::on_port_event(const ibv_async_event& event) {
  if (event.element.port_num != device_.port().port) return;
  const bool is_down = event.event_type == IBV_EVENT_PORT_ERR;
  if (is_down) {
    drain();
    core_.on_port_down(clock(), out_);
  }
  if (!options_.node.tells || ++port_changes_told_ > port_changes_told) return;
  const std::string port = device_.port().name();
  if (!is_down) return tell(port + " is active again.");
  const char* const meanwhile = options_.core.among_rails
                                    ? "Messages go over the other rails"
                                    : "Messages wait for it. Peers out of reach for longer than "
                                      "btl_weir_peer_timeout are given up";
  tell(port + " went down (port error). " + meanwhile +
       ". Check the cable, the switch port and ibv_devinfo.");
}

}  // namespace weir
