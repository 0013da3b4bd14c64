#include "transport/verbs/refusals.h"

#include <cstring>

namespace weir::verbs {

std::string reason() {
  if (errno == 0) return "the adapter gives no reason";
  // (kernel, infiniband/core/rdma_core.h: ib_safe_file_access)
  const char* const since =
      errno == EACCES ? ": the kernel refuses the adapter to a process that has changed its user, "
                        "group or capabilities since MPI_Init; change them before"
                      : "";
  return std::string(std::strerror(errno)) + since;
}

std::string cannot_create(const std::string& what, const Device& device, const std::string& limit) {
  return "cannot create " + what + " on " + device.port().name() + ": " + reason() +
         "; the device allows " + limit;
}

}  // namespace weir::verbs
