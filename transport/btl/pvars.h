// The counters as MPI_T performance variables btl_weir_*.
#pragma once

#include "base/counters.h"
#include "transport/btl/compat.h"
#include "transport/verbs/ports.h"
#include "transport/verbs/registration_cache.h"

namespace weir::btl {

// Registers all of them. They read zero until show_counters is called.
int register_pvars(const mca_base_component_t& component);

// Registers the device-wide counters btl_weir_rnr_naks_sent and _received of `port`, as far as the
// device has them. They count from this call on. Separate from register_pvars, because the device
// is known only when the component is initialised.
void register_device_pvars(const mca_base_component_t& component, const verbs::PortChoice& port);

// Any thread may count.
inline void add_to(std::uint64_t& counter, std::uint64_t more = 1) {
  __atomic_fetch_add(&counter, more, __ATOMIC_RELAXED);
}

// What the plugin counts of one-sided operations and large messages.
struct RdmaCounters {
  std::uint64_t keys_looked_up = 0;
  std::uint64_t rail_parts = 0;
  std::uint64_t rail_bytes = 0;
  std::uint64_t rail_parts_again = 0;
  std::uint64_t rail_losses = 0;
  std::uint64_t rail_frames = 0;
};

// Sets the counters that the variables show from now on. `counters` must stay until the next call;
// nullptr keeps the last values.
void show_counters(const Counters* counters);
// The same for these,
void show_rdma_counters(const RdmaCounters* counters);
// and for btl_weir_registration_*.
void show_registration_counters(const verbs::RegistrationCounters* counters);

}  // namespace weir::btl
