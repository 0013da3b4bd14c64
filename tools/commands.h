// The subcommands of `weir`. Each adds itself to the command line and runs when it was chosen.
#pragma once

#include <CLI/CLI.hpp>

namespace weir::tools {

// `weir info`: RDMA ports, their GIDs, and the ones weir would use.
void add_info(CLI::App& app);

// `weir config`: what is set, from where, whether it is right, and what it means.
void add_config(CLI::App& app);

}  // namespace weir::tools
