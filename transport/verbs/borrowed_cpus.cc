#include "transport/verbs/borrowed_cpus.h"

#include <cerrno>
#include <cstring>

#include "transport/verbs/locality.h"

namespace weir::verbs {

BorrowedCpus::BorrowedCpus(const std::string& wish, std::string& why) {
  if (wish == "auto") return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  if (wish == "any") {
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &wanted);
  } else {
    for (const unsigned cpu : cpus_in(wish)) {
      if (cpu < CPU_SETSIZE) CPU_SET(cpu, &wanted);
    }
  }
  if (CPU_COUNT(&wanted) == 0) {
    why = "'" + wish + "' is neither auto nor any nor a list of CPUs such as 7,15-17";
    return;
  }
  // The kernel leaves out CPUs that are not in the process's cpuset.
  borrowed_ = ::sched_getaffinity(0, sizeof before_, &before_) == 0 &&
              ::sched_setaffinity(0, sizeof wanted, &wanted) == 0;
  if (!borrowed_) {
    why = "this process may use none of the CPUs " + wish + " (" + std::strerror(errno) + ")";
  }
}

BorrowedCpus::~BorrowedCpus() {
  if (borrowed_) ::sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace weir::verbs
