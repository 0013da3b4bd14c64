// Everything weir says to a person. Nothing unless it is an error, or weir was asked for by name,
// or btl_base_verbose was raised.
//
// Any thread, but not under the engine's lock.
#pragma once

#include <string>
#include <vector>

#include "transport/base/ids.h"
#include "transport/base/status.h"
#include "transport/btl/compat.h"
#include "transport/btl/exported.h"
#include "transport/config/source.h"
#include "transport/engine/engine.h"

namespace weir::btl {

// "rank 3", and "of job N" if that is another job than ours.
std::string rank_text(PeerName name);

// Always shown, with our host and rank in front.
void complain(const std::string& text);

// Shown from `btl_base_verbose` `level` on.
void note(int level, const std::string& text);

// Weir cannot be used here. Shown once a node if weir was asked for, otherwise a note.
void report_unavailable(const std::string& why);

// Nothing that keeps weir from running. Shown likewise.
void report_warning(const std::string& what);

// Weir was ready, and now it cannot be used in this process.
void report_start_failure(const std::string& why);

// What the user has set is not acceptable; once a node. About a file that stands there for all
// programs only if weir was asked for, otherwise a note.
void report_bad_configuration(const std::vector<config::Problem>& problems);

// A peer is given up. `proc` may be nullptr. `memory` is that of the failed request, if known.
void report_failure(PeerName peer, const opal_proc_t* proc, const std::string& port,
                    const Failure& failure, const Export& memory);

// A process that is none of the job's, or speaks otherwise, asked for a connection. The job goes
// on.
void report_refusal(const Refusal& refusal);

}  // namespace weir::btl
