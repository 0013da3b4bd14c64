// All messages of weir to the user. There is none unless there is an error, weir was asked for by
// name, or btl_base_verbose was raised.
//
// Any thread, but not under the engine's lock.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "transport/btl/compat.h"
#include "transport/btl/exported.h"
#include "transport/config/source.h"
#include "transport/engine/engine.h"

namespace weir::btl {

// "rank 3", followed by "of job N" if that is another job than ours.
std::string rank_text(PeerName name);

// Always shown, with our host and rank in front.
void complain(const std::string& text);

// Always shown.
void print(const std::string& text);

// Shown from `btl_base_verbose` `level` on.
void note(int level, const std::string& text);

// Weir cannot be used here. Shown once per node if weir was asked for, otherwise a note.
void report_unavailable(const std::string& why);

// A warning; weir runs all the same. Shown likewise.
void report_warning(const std::string& what);

// Overlap was asked for, and there will be none. Shown likewise.
void report_no_overlap(const std::string& why);

// Weir was ready, and now it cannot be used in this process.
void report_start_failure(const std::string& why);

// The user's settings are not acceptable; shown once per node. A problem in a file for all programs
// is only a note, unless weir was asked for.
void report_bad_configuration(const std::vector<config::Problem>& problems);

// A peer was given up. `proc` may be nullptr. `memory` is that of the failed request, if known.
// `survivable`: the program hears of it and may go on, so a mere death is only a note.
void report_failure(PeerName peer, const opal_proc_t* proc, const std::string& port,
                    const Failure& failure, const Export& memory, bool survivable);

// A process outside the job, or with another protocol, asked for a connection. The job goes on.
void report_refusal(const Refusal& refusal);

}  // namespace weir::btl
