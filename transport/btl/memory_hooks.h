// Open MPI's memory hooks, for the registration cache inside an Open MPI process.
//
// UCX's own hooks and Open MPI's patch the same functions of libc, and whoever patches last leaves
// the other blind, silently. Any component with a grdma cache opens Open MPI's. So weir loads UCX,
// then opens Open MPI's hooks itself and passes what they see on to UCX
// (RegistrationCache::Hooks::forwarded): then both are told, whichever component comes later.
// Open MPI's hooks miss some advice and some of mremap: for these weir patches libc once more.
// tests/plugin/memory_hooks_test shows all of this. An allocator may bring a munmap of its own,
// which nobody patches: then no registration is kept.
#pragma once

#include <memory>
#include <string>

#include "transport/verbs/registration_cache.h"

namespace weir::btl {

// Call before the cache is made, and only in a process that registers memory. False, with the
// reason in `why`, if the hooks cannot be opened, or if that would blind a component that opened
// Open MPI's hooks before; then there must be no cache. Idempotent; one thread at a time.
bool open_memory_hooks(std::string& why);

// Registrations on `device`. Where the hooks cannot be had or do not see all, each ends with its
// use, and `why` says what is missing; otherwise `why` stays empty. One thread at a time.
std::unique_ptr<verbs::RegistrationCache> make_registrations(
    const verbs::Device& device, verbs::RegistrationCache::Options options, std::string& why);

// Call after the cache is gone, and before the component is unloaded.
void close_memory_hooks();

}  // namespace weir::btl
