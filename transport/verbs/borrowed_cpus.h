// CPUs for weir's threads: one that is started while one of these lives is born with them, and not
// with those that the application's thread is bound to.
//
// For one thread: in whose scope it is.
#pragma once

#include <sched.h>

#include <string>

namespace weir::verbs {

class BorrowedCpus {
 public:
  // `wish`: "auto", those of the calling thread; "any", all that the machine and its cpusets let
  // the process have; or a list such as "7,15-17". If there are none of these, `why` says so, and
  // threads are born with the calling thread's.
  BorrowedCpus(const std::string& wish, std::string& why);
  ~BorrowedCpus();
  BorrowedCpus(const BorrowedCpus&) = delete;
  BorrowedCpus& operator=(const BorrowedCpus&) = delete;

 private:
  cpu_set_t before_;
  bool borrowed_ = false;
};

}  // namespace weir::verbs
