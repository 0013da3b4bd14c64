// Operations whose handle names other memory than they ask for. A get first looks the key up in the
// target's directory. The target takes no part in it, and no other operation waits for it.
//
// Thread rule: any thread, with no lock held.
#pragma once

#include "transport/btl/module.h"

namespace weir::btl {

// Starts the lookup, and then `request`. `operation` is the record of that request, and `seen` the
// handle as it was found. False if there is no directory: then the caller still owns both.
bool look_up(Module& module, const Operation& operation, const TransferRequest& request,
             const Exported& seen);

// The get of a directory is over.
void finish_lookup(Module& module, const Operation& done, bool ok, bool tell);

// Reports which memory of which peer was asked for.
void report_unknown_memory(Module& module, const Operation& operation,
                           const TransferRequest& request);

}  // namespace weir::btl
