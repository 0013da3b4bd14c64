// The subcommands of `weir`. Each adds itself to the command line and runs when it was chosen.
#pragma once

#include <CLI/CLI.hpp>

namespace weir::tools {

// `weir info`: devices, ports, their GIDs, the ones weir would use, and the limits.
void add_info(CLI::App& app);
// `weir doctor`: does what weir needs work here, and what to do about it.
void add_doctor(CLI::App& app);

// `weir top`: what the processes of this node are doing.
void add_top(CLI::App& app);

// `weir set`: other caps for a job that runs.
void add_set(CLI::App& app);

// `weir perf`: how fast weir is between two hosts, beside verbs alone.
void add_perf(CLI::App& app);

// `weir tune`: which settings this node is fastest with.
void add_tune(CLI::App& app);

// `weir config`: what is set, from where, whether it is right, and what it means.
void add_config(CLI::App& app);

// `weir sim`: the receivers on simulated fabrics of thousands of nodes.
void add_sim(CLI::App& app);

}  // namespace weir::tools
