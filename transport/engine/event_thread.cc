#include "transport/engine/event_thread.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>
#include <utility>

#include "transport/verbs/blocked_signals.h"

namespace weir {

EventThread::~EventThread() {
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

bool EventThread::start(std::function<void()> run, std::string& why) {
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  const verbs::BlockedSignals blocked;
  try {
    thread_ = std::thread([run = std::move(run)] {
      pthread_setname_np(pthread_self(), "weir-events");
      run();
    });
  } catch (const std::system_error& problem) {
    why = std::string("cannot start the event thread: ") + problem.what() +
          ". Check the limit of processes (ulimit -u; pids.max of the cgroup)";
  }
  return is_running();
}

void EventThread::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void EventThread::take_wake() {
  std::uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(wake_fd_, &count, sizeof count);
}

}  // namespace weir
