// Binds the calling thread to other CPUs during its scope. A thread of weir's that starts in this
// scope inherits them, instead of the CPUs that the application's thread is bound to.
//
// Thread rule: the thread that makes it destroys it.
#pragma once

#include <sched.h>

#include <string>

namespace weir::verbs {

class BorrowedCpus {
 public:
  // `wish`: "auto" keeps the calling thread's CPUs; "any" takes all that the process's cpuset
  // allows; a list such as "7,15-17" takes these. If the process may use none of them, the calling
  // thread keeps its CPUs, and `why` gets the reason.
  BorrowedCpus(const std::string& wish, std::string& why);
  ~BorrowedCpus();
  BorrowedCpus(const BorrowedCpus&) = delete;
  BorrowedCpus& operator=(const BorrowedCpus&) = delete;

 private:
  cpu_set_t before_;
  bool borrowed_ = false;
};

}  // namespace weir::verbs
