// The parts of UCX that the registration cache uses, loaded only when first needed. UCX patches
// libc and handles SIGSEGV and the like as soon as it is loaded. Open MPI loads weir into every MPI
// process, also into those that do not use it.
#pragma once

// UCX's headers are C and not as strict as we are.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-parameter"
extern "C" {
#include <ucm/api/ucm.h>
#include <ucp/api/ucp.h>
#include <ucs/memory/rcache.h>
}
#pragma GCC diagnostic pop

#include <string>

namespace weir::verbs {

struct Ucx {
  decltype(&ucs_rcache_create) rcache_create;
  decltype(&ucs_rcache_destroy) rcache_destroy;
  decltype(&ucs_rcache_get) rcache_get;
  decltype(&ucs_rcache_region_put) rcache_region_put;
  decltype(&ucs_rcache_region_invalidate) rcache_region_invalidate;
  decltype(&ucs_status_string) status_string;
  decltype(&ucm_set_event_handler) set_event_handler;
  decltype(&ucm_unset_event_handler) unset_event_handler;
  decltype(&ucm_set_external_event) set_external_event;
  decltype(&ucm_vm_munmap) vm_munmap;
  const ucm_global_config_t* ucm_options;
};

// Loads UCX for good; the process keeps its signal handlers. If UCX is missing, or its major.minor
// version is not that of the headers: nullptr, and the reason in `why`. Any thread, any number of
// times.
const Ucx* load_ucx(std::string& why);

// Whether this process has loaded UCX already, by weir or another library.
bool is_ucx_loaded();

}  // namespace weir::verbs
