// The MCA variables btl_weir_*: weir's own from the schema, and the standard ones of every BTL. Files
// and the environment rank below them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "transport/btl/compat.h"
#include "transport/config/resolve.h"

namespace weir::btl {

// Registers all of them; touches no hardware. `standard` has its entry points: Open MPI drops flags
// without functions. It gets weir's defaults, then keeps the values of the standard variables; it
// must live as long as the component.
int register_params(const mca_base_component_t& component, mca_btl_base_module_t& standard);

// The values in effect for a port of `fabric`: from files, the environment and the MCA variables.
// register_params reads the files once.
config::Configuration read_configuration(config::Fabric fabric);

// Findings that deserve a note, though weir can run with them.
std::vector<std::string> configuration_warnings();

// Frees what register_params has read.
void forget_params();

// The settings of each of a process's rails, which divide its caps.
config::Settings settings_of_a_rail(const config::Settings& settings, std::size_t rails);

// The cap on registered application memory, with `auto` resolved for this node.
std::size_t registration_bytes(const config::Settings& settings);

}  // namespace weir::btl
