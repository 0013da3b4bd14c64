// What an adapter is, and its habits: for those who make weir, from those who have one.
#pragma once

#include <nlohmann/json.hpp>

#include "transport/verbs/device.h"

namespace weir::tools::doctor {

// Its probes take some seconds, and leave nothing behind. Whatever a probe cannot do stands in its
// place, as text.
nlohmann::ordered_json adapter_report(const verbs::Device& device);

}  // namespace weir::tools::doctor
