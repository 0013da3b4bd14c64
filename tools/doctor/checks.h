// Every check of the doctor, by the file it is in. Each ends by itself: no wait without a deadline.
#pragma once

#include <string>

#include "tools/doctor/check.h"
#include "transport/config/resolve.h"
#include "transport/verbs/device.h"

namespace weir::tools::doctor {

// machine.cc: what is configured, and what the kernel and the limits of this user allow.
Findings check_configuration(const config::Configuration& here);
Findings check_devices();       // modules and devices
Findings check_device_files();  // /dev/infiniband
Findings check_memlock(const config::Settings& settings);
Findings check_fork();     // asks the RDMA modules: only where they are
Findings check_process();  // open files, /dev/shm
Findings check_overlap(const config::Settings& settings);  // whether messages can move meanwhile

// port.cc: the port weir would take. It is in `choice` when it can be used.
Findings check_port(const verbs::DeviceWish& wish, std::optional<verbs::PortChoice>& choice);
Findings check_path(const verbs::Device& device, const config::Settings& settings);
Findings check_limits(const verbs::Device& device, const config::Settings& settings);
Findings check_counters(const verbs::Device& device);

// verbs_probes.cc: memory, messages and the SRQ, over weir's own queues.
Findings probe_memory(const verbs::Device& device, const config::Settings& settings);
Findings probe_cache(const verbs::Device& device);
Findings probe_connection(const verbs::Device& device);
Findings probe_srq_limit(const verbs::Device& device);
Findings probe_rnr(const verbs::Device& device, const config::Settings& settings);

// rdma_probes.cc: what the peer's software has no part in.
Findings probe_rdma(const verbs::Device& device);  // write, read, atomic
Findings probe_retries(const verbs::Device& device);

// openmpi.cc: does Open MPI find and load the plugin, and would it use it.
Findings check_open_mpi();
// Its version; empty, and the reason in `why`, if there is none that programs would find.
std::string open_mpi_version(std::string& why);

}  // namespace weir::tools::doctor
