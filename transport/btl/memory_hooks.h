// Open MPI's memory hooks, for the registration cache in a process of Open MPI's.
//
// UCX's own hooks and Open MPI's patch the same functions of libc, and whoever patches last leaves
// the other blind, silently. Any component with a grdma cache opens Open MPI's. So weir opens them
// itself and passes on to UCX what they see (RegistrationCache::Hooks::forwarded): then both are
// told, whoever else comes. tests/plugin/memory_hooks_test shows all of this.
#pragma once

namespace weir::btl {

// Before the cache is made, and only then: not in a process that registers nothing. False if this
// Open MPI has no hooks; then there must be no cache. Idempotent.
bool open_memory_hooks();

// After the cache is gone, and before the component is unloaded.
void close_memory_hooks();

}  // namespace weir::btl
