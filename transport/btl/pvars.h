// The counters as MPI_T performance variables btl_weir_*.
#pragma once

#include "transport/base/counters.h"
#include "transport/btl/compat.h"

namespace weir::btl {

// Registers all of them. They read zero until there are counters to show.
int register_pvars(const mca_base_component_t& component);

// What they show from now on. `counters` must stay until the next call; nullptr: the last values
// stay as they are.
void show_counters(const Counters* counters);

}  // namespace weir::btl
