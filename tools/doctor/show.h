// How a finding is shown.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/doctor/check.h"

namespace weir::tools::doctor {

const char* word(Verdict verdict);

// "ok    memlock        this user may lock …", and a line with the fix if there is one. `where`:
// before the name, of another host.
void show(const Finding& finding, bool colour, const std::string& where = {});

nlohmann::ordered_json to_json(const Finding& finding);

}  // namespace weir::tools::doctor
