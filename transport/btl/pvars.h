// The counters as MPI_T performance variables btl_weir_*.
#pragma once

#include "base/counters.h"
#include "transport/btl/compat.h"
#include "transport/verbs/ports.h"
#include "transport/verbs/registration_cache.h"

namespace weir::btl {

// Registers all of them. They read zero until show_counters is called.
int register_pvars(const mca_base_component_t& component);

// Registers the counters btl_weir_rnr_naks_sent and _received of `port`, for all processes on it,
// as far as the device has them. They count from this call on. Separate from register_pvars,
// because the device is known only when the component is initialised.
void register_device_pvars(const mca_base_component_t& component, const verbs::PortChoice& port);

// Any thread may count.
inline void add_to(std::uint64_t& counter, std::uint64_t more = 1) {
  __atomic_fetch_add(&counter, more, __ATOMIC_RELAXED);
}

// The plugin's counters of one-sided operations and large messages. X as in base/counters.h
#define WEIR_RDMA_COUNTERS(X)                                                                  \
  X(keys_looked_up, "operations", sum,                                                         \
    "One-sided operations that looked up their key at the target, because their handle named " \
    "other memory")                                                                            \
  X(rail_parts, "parts", sum, "Parts of large messages that further rails took")               \
  X(rail_bytes, "bytes", sum, "Bytes of these parts")                                          \
  X(rail_parts_again, "parts", sum,                                                            \
    "Parts that went over another rail, because theirs lost them")                             \
  X(rail_losses, "ways", sum, "Ways to a peer over a further rail that broke")                 \
  X(rail_frames, "frames", sum,                                                                \
    "Frames that went over another rail, because theirs broke before it delivered them")

struct RdmaCounters {
#define WEIR_X(name, unit, kind, help) std::uint64_t name = 0;
  WEIR_RDMA_COUNTERS(WEIR_X)
#undef WEIR_X
};

// Sets the counters that the variables show from now on. `counters` must stay until the next call;
// nullptr keeps the last values.
void show_counters(const Counters* counters);
void show_rdma_counters(const RdmaCounters* counters);
// For btl_weir_registration_*.
void show_registration_counters(const verbs::RegistrationCounters* counters);

}  // namespace weir::btl
