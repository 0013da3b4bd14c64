// Which of several equal adapters a process uses: one near its CPUs, and the processes of a node
// spread over those that are equally near.
//
// The kernel says which CPUs are near a device (hwloc reads the same file; to load a topology would
// cost every process more than its start takes otherwise).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weir::verbs {

using Cpus = std::vector<unsigned>;  // rising

// The CPUs of a list such as "0-3,8"; none if the text is no list.
Cpus cpus_in(const std::string& list);

// Those that this thread may run on.
Cpus own_cpus();

// Those near the device. None if the kernel does not say.
Cpus cpus_near(const std::string& device, const std::string& root = "/sys/class/infiniband");

struct Place {
  Cpus own;
  unsigned online = 1;  // CPUs of the machine
  unsigned turn = 0;    // the process's number on its node
};

// The place in `near` of the adapter to use; `near` has the CPUs near each, and is not empty.
std::size_t nearest(const std::vector<Cpus>& near, const Place& place);

// The places of the adapters that a process uses as rails if nobody says how many: two near ones if
// the node has two for each of its `processes`, which then use different ones, else the one above.
// Where the processes fill all adapters a second one adds only memory.
std::vector<std::size_t> one_or_two(const std::vector<Cpus>& near, const Place& place,
                                    std::size_t processes);

}  // namespace weir::verbs
