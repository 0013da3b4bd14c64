// How many CPUs this process and those beside it may use: fewer than the machine has if a container
// gets only part of it.
#pragma once

#include <string>

namespace weir {

// CPUs online, or fewer: what the cpuset and the CPU bandwidth of the process's control group and
// the groups above it leave (a bandwidth of 1.5 CPUs counts as 2). A limit that cannot be read does
// not count; the result is at least one. Binding by taskset or mpirun does not count: a process
// bound to some CPUs has neighbours on the others.
//
// Reads files below `root`; any thread. Source: Linux, Documentation/admin-guide/cgroup-v2.rst
// (cpu.max, cpuset.cpus.effective) and Documentation/scheduler/sched-bwc.rst (version 1).
int usable_cpus(const std::string& root = "");

}  // namespace weir
