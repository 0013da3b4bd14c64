// The MCA variables btl_weir_*: weir's own from the schema, the standard ones of every BTL, and
// what the engine makes of them. Below them stand the files and the environment.
#pragma once

#include <string>
#include <vector>

#include "transport/btl/compat.h"
#include "transport/config/resolve.h"
#include "transport/engine/engine.h"

namespace weir::btl {

// Registers all of them; touches no hardware. `standard` gets weir's defaults first and keeps the
// values of the standard variables; it must live as long as the component.
int register_params(const mca_base_component_t& component, mca_btl_base_module_t& standard);

// The values in effect if the port is of `fabric`: from files, the environment and the MCA
// variables. Files are read once, by register_params.
config::Configuration read_configuration(config::Fabric fabric);

// Something that deserves a note, though it keeps nothing from running.
std::vector<std::string> configuration_warnings();

// The end of what register_params has read.
void forget_params();

Engine::Options engine_options(const config::Settings& settings, const verbs::PortChoice& port,
                               PeerName self);

// The cap on registered application memory, with `auto` resolved for this node.
std::size_t registration_bytes(const config::Settings& settings);

}  // namespace weir::btl
