// Runs a program and takes what it prints, but never waits longer than it was told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/waiting.h"

namespace weir::tools::doctor {

struct Ended {
  int status = 0;      // exit status, or 128 + the signal
  std::string output;  // stdout and stderr
};

// Nothing, and the reason in `why`, when it cannot be started or does not end in time; then it is
// killed. `environment` is added to ours: "NAME=VALUE".
std::optional<Ended> run_program(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment, milliseconds limit,
                                 std::string& why);

// Where `name` is in PATH, or empty.
std::string find_program(const std::string& name);

}  // namespace weir::tools::doctor
