// The MCA variables btl_weir_*: weir's own from the schema, the standard ones of every BTL, and
// what the engine makes of them.
#pragma once

#include <string>

#include "transport/btl/compat.h"
#include "transport/config/settings.h"
#include "transport/engine/engine.h"

namespace weir::btl {

// Registers all of them; touches no hardware. `standard` gets weir's defaults first and keeps the
// values of the standard variables; it must live as long as the component.
int register_params(const mca_base_component_t& component, mca_btl_base_module_t& standard);

// The values now. False, and the reason in `error`, if one is not acceptable.
bool read_settings(config::Settings& settings, std::string& error);

Engine::Options engine_options(const config::Settings& settings, PeerName self);

}  // namespace weir::btl
