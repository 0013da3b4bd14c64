// How many CPUs this process and those beside it may use: fewer than the machine has where a
// container has a part of it.
#pragma once

#include <string>

namespace weir {

// CPUs online, or less: what cpuset and CPU bandwidth of the process's control group, or of a group
// above it, leave (a bandwidth of 1.5 CPUs counts as 2). What cannot be read limits nothing; at
// least one. A process bound to some of them by taskset or mpirun has neighbours on the others:
// that does not count.
//
// Reads files below `root`; any thread. Source: Linux, Documentation/admin-guide/cgroup-v2.rst
// (cpu.max, cpuset.cpus.effective) and Documentation/scheduler/sched-bwc.rst (version 1).
int usable_cpus(const std::string& root = "");

}  // namespace weir
