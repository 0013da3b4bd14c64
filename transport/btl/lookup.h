// Operations whose handle is not of the memory that they ask for: the key is looked up in the
// target's directory first, by a get. The target takes no part in it, and nobody else waits.
//
// Thread rule: any thread, with no lock held.
#pragma once

#include "transport/btl/module.h"

namespace weir::btl {

// Starts the lookup, and then `request`, which `operation` is the record of. `seen` is the handle
// as it was found. False, and both are the caller's still, if there is no directory to look in.
bool look_up(Module& module, const Operation& operation, const TransferRequest& request,
             const Exported& seen);

// The get of a directory is over.
void finish_lookup(Module& module, const Operation& done, bool ok, bool tell);

// Says which memory of whom is asked for.
void report_unknown_memory(Module& module, const Operation& operation,
                           const TransferRequest& request);

}  // namespace weir::btl
