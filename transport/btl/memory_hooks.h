// Open MPI's memory hooks, for the registration cache in a process of Open MPI's.
//
// UCX's own hooks and Open MPI's patch the same functions of libc, and whoever patches last leaves
// the other blind, silently. Any component with a grdma cache opens Open MPI's. So weir loads UCX,
// then opens Open MPI's hooks itself and passes on to UCX what they see
// (RegistrationCache::Hooks::forwarded): then both are told, whoever else comes.
// tests/plugin/memory_hooks_test shows all of this.
#pragma once

#include <string>

namespace weir::btl {

// Before the cache is made, and only then: not in a process that registers nothing. False, and the
// reason in `why`, if that cannot be, or would blind somebody who opened Open MPI's hooks before;
// then there must be no cache. Idempotent; one thread at a time.
bool open_memory_hooks(std::string& why);

// After the cache is gone, and before the component is unloaded.
void close_memory_hooks();

}  // namespace weir::btl
