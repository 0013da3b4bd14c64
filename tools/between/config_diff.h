// `weir config diff`: what hosts are configured with that others are not.
#pragma once

#include <CLI/CLI.hpp>

namespace weir::tools::between {

// Below `weir config`.
void add_config_diff(CLI::App& group);

}  // namespace weir::tools::between
