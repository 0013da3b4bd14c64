// Which of several equal adapters a process uses: one near its CPUs. The processes of a node spread
// over equally near adapters.
//
// The kernel lists the CPUs near a device. hwloc reads the same file, but loading its topology
// would take longer than the rest of the process's start.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weir::verbs {

using Cpus = std::vector<unsigned>;  // rising

// The CPUs of a list such as "0-3,8"; none if the text is no list.
Cpus cpus_in(const std::string& list);

// The CPUs that this thread may run on.
Cpus own_cpus();

// The CPUs near the device; none if the kernel does not say.
Cpus cpus_near(const std::string& device, const std::string& root = "/sys/class/infiniband");

// By CPU, the first CPU of its core; CPUs beyond the end are cores of their own.
using Cores = std::vector<unsigned>;

// Of CPUs 0 to `cpus` - 1. None if each is a core of its own. Reads a file for each core.
Cores cores_of_machine(unsigned cpus, const std::string& root = "/sys/devices/system/cpu");

// Where this process runs.
struct Place {
  Cpus own;
  Cores cores{};
  unsigned online = 1;  // CPUs of the machine
  unsigned turn = 0;    // the process's number on its node
};

// The index of the adapter to use. `near` has the CPUs near each adapter, and is not empty.
std::size_t nearest(const std::vector<Cpus>& near, const Place& place);

// The indices of the adapters that a process uses as rails if the user asks for no number: two near
// ones if the node has two for each of its `processes`, else the one above. Where the processes
// fill all adapters, a second one for each would only cost memory.
std::vector<std::size_t> one_or_two(const std::vector<Cpus>& near, const Place& place,
                                    std::size_t processes);

}  // namespace weir::verbs
