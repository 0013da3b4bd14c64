// What a process started here would be configured with.
#pragma once

#include <string>

#include "transport/config/resolve.h"

namespace weir::tools {

// Files, environment, and those MCA parameters that mpirun would hand on from it. `file`: read in
// place of the one that WEIR_CONFIG or btl_weir_config names.
config::Sources sources_here(const std::string& file = "");

// The fabric of the port that a process with these settings would take; its name is in `port`.
config::Fabric fabric_here(const config::Settings& wish, std::string& port);

config::Configuration configuration_here();

}  // namespace weir::tools
