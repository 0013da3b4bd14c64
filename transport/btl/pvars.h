// The counters as MPI_T performance variables btl_weir_*.
#pragma once

#include "transport/base/counters.h"
#include "transport/btl/compat.h"
#include "transport/verbs/device.h"
#include "transport/verbs/registration_cache.h"

namespace weir::btl {

// Registers all of them. They read zero until show_counters is called.
int register_pvars(const mca_base_component_t& component);

// Registers the device-wide counters btl_weir_rnr_naks_sent and _received of `port`, as far as the
// device has them. They count from this call on. Separate from register_pvars, because the device
// is known only when the component is initialised.
void register_device_pvars(const mca_base_component_t& component, const verbs::PortChoice& port);

// Sets the counters that the variables show from now on. `counters` must stay until the next call;
// nullptr keeps the last values.
void show_counters(const Counters* counters);
// The same for btl_weir_registration_*.
void show_registration_counters(const verbs::RegistrationCounters* counters);

}  // namespace weir::btl
