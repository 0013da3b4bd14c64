// Signals are the application's: a thread that is started while one of these lives is born with all
// of them blocked, and runs none of its handlers.
//
// For one thread: in whose scope it is.
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
