// The identity of this process, and which others live, for leases (flowctl/shared/lease.h). Each
// call reads a file of /proc: for setup, and for a waiter that has waited for long.
//
// Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "flowctl/shared/lease.h"

namespace weir {

// This process. Nothing if /proc cannot be read.
std::optional<ProcessId> this_process();

// Whether the process lives. A killed process that its parent has not reaped yet does not live; one
// that cannot be queried does, because nobody may take what it holds.
bool process_alive(ProcessId id);

// The namespaces that the ids belong to, of pids and of time, by their inodes; 0 if unknown.
// Processes in different ones cannot judge each other.
std::uint64_t process_namespaces();

}  // namespace weir
