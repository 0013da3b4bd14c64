// Blocks all signals for the calling thread during its scope. A thread that starts in this scope
// inherits the mask, so it never runs a signal handler of the application.
//
// Thread rule: the thread that makes it destroys it.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace weir::verbs {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace weir::verbs
