// The only symbol that the plugin exports, which Open MPI looks for.
#pragma once

#include "transport/btl/compat.h"

extern "C" __attribute__((visibility("default"))) mca_btl_base_component_t mca_btl_weir_component;

namespace weir::btl {

// Stops the calls of `progress`, because the module is about to end.
void forget_module();

}  // namespace weir::btl
