// What Open MPI finds in the plugin: the only symbol it exports.
#pragma once

#include "transport/btl/compat.h"

extern "C" __attribute__((visibility("default"))) mca_btl_base_component_t mca_btl_weir_component;

namespace weir::btl {

// The module is about to end: no progress any more.
void forget_module();

}  // namespace weir::btl
