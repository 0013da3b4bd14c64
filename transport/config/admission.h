// The settings of the node's admission, in the form that flowctl/ takes.
//
// Pure; any thread.
#pragma once

#include "flowctl/admission.h"
#include "transport/config/settings.h"

namespace weir::config {

// The tables in `settings` must have passed `check`.
Admission::Config admission(const Settings& settings);

}  // namespace weir::config
