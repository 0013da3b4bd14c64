// The event thread and what wakes it.
//
// Thread rule: `wake` with the engine's lock or before `join`, which is called without it.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace weir {

class EventThread {
 public:
  EventThread() = default;
  ~EventThread();
  EventThread(const EventThread&) = delete;
  EventThread& operator=(const EventThread&) = delete;

  // False, with the reason in `why`, if there can be none.
  bool start(std::function<void()> run, std::string& why);
  bool is_running() const { return thread_.joinable(); }
  void wake();
  // Readable once it was woken.
  int wake_fd() const { return wake_fd_; }
  void take_wake();
  void join() { thread_.join(); }

 private:
  std::thread thread_;
  int wake_fd_ = -1;
};

}  // namespace weir
