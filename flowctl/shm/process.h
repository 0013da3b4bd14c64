// Who this process is and which others live, as leases want it (flowctl/shared/lease.h). Each call
// reads a file of /proc: for setting up, and for a waiter that has waited for long.
//
// Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "flowctl/shared/lease.h"

namespace weir {

// This process. None where /proc cannot be read.
std::optional<ProcessId> this_process();

// Whether the process lives. One that was killed and only waits for its parent to notice does not;
// one that cannot be asked does, for what it holds must not be taken from it.
bool process_alive(ProcessId id);

// The pid namespace that the ids belong to, by its inode; 0 if it is not known. Processes of
// different ones cannot judge each other.
std::uint64_t pid_namespace();

}  // namespace weir
