// What the event thread does: everything that must happen even while the application computes. It
// answers connection requests, lets the receive window grow, looks after frames that wait (to be
// bundled, for credits), watches deadlines, and moves the frames of rails that broke. It never hands
// anything up; it rings for the thread that stands in for the application, if there is one.

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "transport/engine/engine.h"

namespace weir {
namespace {

// What poll says of descriptors of a device that was removed, from then on.
constexpr short in_error = POLLERR | POLLHUP | POLLNVAL;

constexpr Duration slots_shrink_interval = seconds(1);

}  // namespace

// What the thread is to do without the lock, as it was with it.
struct Engine::Turn {
  Duration nap{};
  bool ends = false;
  bool asked = false;  // a request may be served
  bool has_device = true;
  bool listens = true;
  bool lacks_pair = false;
  verbs::Queues::Spare spare{};
};

void Engine::run_thread() {
  const int device_fd = device().context()->async_fd;
  fcntl(device_fd, F_SETFL, fcntl(device_fd, F_GETFL) | O_NONBLOCK);

  for (bool first = true;; first = false) {
    driver_.links().serve();
    Turn turn = begin_turn(first);
    if (turn.ends) return;
    std::array<pollfd, 4> fds{
        {{driver_.thread().wake_fd(), POLLIN, 0},
         {turn.has_device ? driver_.connections().fd() : -1, POLLIN, 0},
         {turn.has_device ? device_fd : -1, POLLIN, 0},
         {turn.has_device && turn.listens ? driver_.queues().event_fd() : -1, POLLIN, 0}}};
    const timespec patience{turn.nap.ns / 1000000000, turn.nap.ns % 1000000000};
    ::ppoll(fds.data(), fds.size(), &patience, nullptr);
    const Time woken = clock();
    // A pair takes long to make, so it is made without the lock: one for the first connection,
    // whoever asks for it, and one for each request that waits.
    if (turn.lacks_pair && (turn.asked || first)) driver_.queues().make_spare(turn.spare);

    std::lock_guard guard(lock_);
    if (stopping_) return;
    driver_.queues().keep_spare(std::move(turn.spare));
    if ((fds[0].revents & POLLIN) != 0) {
      driver_.thread().take_wake();
      driver_.on_woken();
    }
    // The device first: if it is gone, its connections must not be taken for peers that are gone.
    if ((fds[2].revents & POLLIN) != 0) driver_.serve_device_events(woken);
    if (((fds[1].revents | fds[2].revents | fds[3].revents) & in_error) != 0) {
      driver_.on_device_gone();
    }
    if ((fds[1].revents & POLLIN) != 0) driver_.serve_connections();
    if (turn.asked) driver_.serve_request();
    const bool heard = (fds[3].revents & POLLIN) != 0;
    if (heard) {
      driver_.queues().take_events();
      driver_.drain();
    }
    driver_.attend(woken);
    driver_.queues().destroy_flushed();
    if (!driver_.queues().adjust_an_rnr_timer()) ++core().counters().rnr_timer_refusals;
    driver_.node().look(driver_.now(), driver_.waits_for_node_since(), driver_.out());
    driver_.settle();
    if (woken >= next_shrink_) {
      next_shrink_ = woken + slots_shrink_interval;
      driver_.slots().shrink();
    }
    if (stand_in_.has_bell()) stand_in_.look(woken, heard, has_for_stand_in());
  }
}

Engine::Turn Engine::begin_turn(bool first) {
  std::lock_guard guard(lock_);
  if (stopping_) return {.ends = true};
  Turn turn{.asked = driver_.may_serve_request()};
  turn.nap = stand_in_.nap(driver_.nap(clock()), clock());
  if (driver_.queues().has_old_rnr_timers()) turn.nap = std::min(turn.nap, milliseconds(1));
  if (turn.asked || first) turn.nap = {};
  turn.has_device = driver_.has_device();
  turn.listens = stand_in_.listens();
  turn.lacks_pair = !driver_.queues().has_spare();
  turn.spare = driver_.queues().spare_wanted();
  return turn;
}

}  // namespace weir
