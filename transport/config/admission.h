// The settings of the node's admission as flowctl/ takes them.
//
// Pure; any thread.
#pragma once

#include "flowctl/admission.h"
#include "transport/config/settings.h"

namespace weir::config {

// The tables in `settings` must be good ones: `check` has looked.
Admission::Config admission(const Settings& settings);

}  // namespace weir::config
