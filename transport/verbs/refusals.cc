#include "transport/verbs/refusals.h"

#include <cstring>

namespace weir::verbs {

std::string reason() { return errno != 0 ? std::strerror(errno) : "the adapter gives no reason"; }

std::string cannot_create(const std::string& what, const Device& device, const std::string& limit) {
  return "cannot create " + what + " on " + device.port().name() + ": " + reason() +
         "; the device allows " + limit;
}

}  // namespace weir::verbs
