#include "transport/btl/memory_hooks.h"

#include "transport/btl/compat.h"
#include "transport/verbs/registration_cache.h"

namespace weir::btl {
namespace {

bool is_open = false;

// Memory is about to be unmapped. Allocates nothing, as it may be the allocator that unmaps.
void pass_on(void* address, std::size_t length_bytes, void*, bool) {
  verbs::RegistrationCache::memory_goes_away(address, length_bytes);
}

}  // namespace

bool open_memory_hooks() {
  if (is_open) return true;
  // Never closed again by us: Open MPI patches once only, so the next one to open it would get
  // none.
  if (mca_base_framework_open(&opal_memory_base_framework, static_cast<mca_base_open_flag_t>(0)) !=
      OPAL_SUCCESS) {
    return false;
  }
  constexpr int needed = OPAL_MEMORY_FREE_SUPPORT | OPAL_MEMORY_MUNMAP_SUPPORT;
  if ((opal_mem_hooks_support_level() & needed) != needed) return false;
  is_open = opal_mem_hooks_register_release(pass_on, nullptr) == OPAL_SUCCESS;
  return is_open;
}

void close_memory_hooks() {
  if (is_open) opal_mem_hooks_unregister_release(pass_on);
  is_open = false;
}

}  // namespace weir::btl
