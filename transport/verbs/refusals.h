// What a device refuses, in words.
//
// Thread rule: errno is the thread's own, so all of this is for the thread that was refused.
#pragma once

#include <cerrno>
#include <string>

#include "transport/verbs/device.h"

namespace weir::verbs {

// Some functions of verbs return the error, some its negative, and some set errno as well. Whether
// there is none; if there is one, errno has it.
inline bool good(int error) {
  if (error != 0) [[unlikely]]
    errno = error > 0 ? error : -error;
  return error == 0;
}

// errno in words. bnxt_re's library leaves it alone: set it to 0 before the call.
std::string reason();

// "cannot create a queue pair on mlx5_0:1: Cannot allocate memory; the device allows LIMIT".
std::string cannot_create(const std::string& what, const Device& device, const std::string& limit);

}  // namespace weir::verbs
