#include "transport/btl/memory_hooks.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "transport/btl/compat.h"
#include "transport/verbs/ucx.h"

namespace weir::btl {
namespace {

bool is_open = false;

// Memory is about to be unmapped. Allocates nothing, because the allocator may be unmapping.
void pass_on(void* address, std::size_t length_bytes, void*, bool) {
  verbs::RegistrationCache::memory_goes_away(address, length_bytes);
}

// Whether other pages may be there afterwards. Of advice that is new we expect it: that costs a
// registration. What is registered is pinned, so the kernel cannot page it out.
bool may_replace_pages(int advice) {
  switch (advice) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_DONTFORK:
    case MADV_DOFORK:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK:
    case MADV_COLD:
    case MADV_PAGEOUT:
    case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE: return false;
    default: return true;
  }
}

// In place of libc's functions: any thread, at any time, also within an allocator. Everybody who
// uses Open MPI's hooks is told.
int patched_madvise(void* address, std::size_t length_bytes, int advice) {
  if (may_replace_pages(advice)) opal_mem_hooks_release_hook(address, length_bytes, true);
  return static_cast<int>(syscall(SYS_madvise, address, length_bytes, advice));
}

void* patched_mremap(void* address, std::size_t old_bytes, std::size_t new_bytes, int flags,
                     void* target) {
  const bool fixed = (flags & MREMAP_FIXED) != 0;
  opal_mem_hooks_release_hook(address, old_bytes, true);
  if (fixed) opal_mem_hooks_release_hook(target, new_bytes, true);
  return reinterpret_cast<void*>(
      syscall(SYS_mremap, address, old_bytes, new_bytes, flags, fixed ? target : nullptr));
}

// Libc jumps into it from here on, so the plugin must not be unloaded any more.
bool stay_loaded() {
  Dl_info where{};
  link_map* image = nullptr;
  void* const inside = reinterpret_cast<void*>(patched_madvise);
  if (dladdr1(inside, &where, reinterpret_cast<void**>(&image), RTLD_DL_LINKMAP) == 0) return false;
  const bool is_program = image->l_name[0] == '\0';  // in a test
  return is_program || dlopen(image->l_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) != nullptr;
}

// Open MPI's own hooks for these do not see all: advice that is newer than they are, and the memory
// that mremap replaces. They cannot be taken back. By address: 5.0 patches no symbol twice.
bool patch_libc() {
  if (opal_patcher == nullptr || opal_patcher->patch_address == nullptr || !stay_loaded())
    return false;
  const auto patch = [](const char* name, auto* function) {
    void* libcs = dlsym(RTLD_NEXT, name);
    if (libcs == nullptr) libcs = dlsym(RTLD_DEFAULT, name);
    return libcs != nullptr &&
           opal_patcher->patch_address(reinterpret_cast<std::uintptr_t>(libcs),
                                       reinterpret_cast<std::uintptr_t>(function)) == OPAL_SUCCESS;
  };
  return patch("madvise", patched_madvise) && patch("mremap", patched_mremap);
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
  static bool is_patched = false;
  is_open = rc == OPAL_SUCCESS && (opal_mem_hooks_support_level() & needed) == needed &&
            (is_patched || (is_patched = patch_libc())) &&
            opal_mem_hooks_register_release(pass_on, nullptr) == OPAL_SUCCESS;
  if (!is_open) why = "this Open MPI has no memory hooks";
  return is_open;
}

std::unique_ptr<verbs::RegistrationCache> make_registrations(
    const verbs::Device& device, verbs::RegistrationCache::Options options, std::string& why) {
  if (open_memory_hooks(why)) {
    options.hooks = verbs::RegistrationCache::Hooks::forwarded;
    if (auto cache = verbs::RegistrationCache::create(device, options, why)) return cache;
  }
  options.unused = verbs::RegistrationCache::Unused::ended;
  return verbs::RegistrationCache::create(device, options, why);
}

void close_memory_hooks() {
  if (is_open) opal_mem_hooks_unregister_release(pass_on);
  is_open = false;
}

}  // namespace weir::btl
