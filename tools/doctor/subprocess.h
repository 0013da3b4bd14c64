// Runs a program and takes what it prints, but never waits longer than it was told.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/waiting.h"

namespace weir::tools::doctor {

// A program that runs, and our ends of its pipes. Its children are in its process group.
struct Started {
  pid_t child = 0;
  int to = -1;    // its stdin; -1: it has /dev/null
  int from = -1;  // its stdout and stderr
};

// Nothing, and the reason in `why`, when it cannot be started. `environment` is added to ours:
// "NAME=VALUE".
std::optional<Started> start_program(const std::vector<std::string>& arguments,
                                     const std::vector<std::string>& environment, bool with_input,
                                     std::string& why);

struct Ended {
  int status = 0;      // exit status, or 128 + the signal
  std::string output;  // stdout and stderr
};

// Nothing, and the reason in `why`, when it cannot be started or does not end in time; then it is
// killed.
std::optional<Ended> run_program(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment, milliseconds limit,
                                 std::string& why);

// Where `name` is in PATH, or empty.
std::string find_program(const std::string& name);

}  // namespace weir::tools::doctor
