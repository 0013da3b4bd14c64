#include "transport/btl/memory_hooks.h"

#include "transport/btl/compat.h"
#include "transport/verbs/registration_cache.h"
#include "transport/verbs/ucx.h"

namespace weir::btl {
namespace {

bool is_open = false;

// Memory is about to be unmapped. Allocates nothing, because the allocator may be unmapping.
void pass_on(void* address, std::size_t length_bytes, void*, bool) {
  verbs::RegistrationCache::memory_goes_away(address, length_bytes);
}

}  // namespace

bool open_memory_hooks(std::string& why) {
  if (is_open) return true;
  if (opal_mem_hooks_support_level() != 0 && !verbs::is_ucx_loaded()) {
    why = "another component uses Open MPI's memory hooks, which loading UCX would disable";
    return false;
  }
  if (verbs::load_ucx(why) == nullptr) return false;
  // We never close it again: Open MPI patches only once, so the next component to open it would get
  // no hooks.
  const int rc =
      mca_base_framework_open(&opal_memory_base_framework, static_cast<mca_base_open_flag_t>(0));
  constexpr int needed = OPAL_MEMORY_FREE_SUPPORT | OPAL_MEMORY_MUNMAP_SUPPORT;
  is_open = rc == OPAL_SUCCESS && (opal_mem_hooks_support_level() & needed) == needed &&
            opal_mem_hooks_register_release(pass_on, nullptr) == OPAL_SUCCESS;
  if (!is_open) why = "this Open MPI has no memory hooks";
  return is_open;
}

void close_memory_hooks() {
  if (is_open) opal_mem_hooks_unregister_release(pass_on);
  is_open = false;
}

}  // namespace weir::btl
