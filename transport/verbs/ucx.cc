#include "transport/verbs/ucx.h"

#include <dlfcn.h>

#include <array>
#include <csignal>

namespace weir::verbs {
namespace {

// UCX installs handlers that print a backtrace. The application's own handlers, and a debugger's
// view of a crash, come first.
class KeepSignalHandlers {
 public:
  KeepSignalHandlers() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], nullptr, &before_[i]);
  }
  ~KeepSignalHandlers() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array signals{SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGHUP, SIGUSR1};
  std::array<struct sigaction, signals.size()> before_{};
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// UCX does not promise this interface, and all versions have the same soname. Versions after 1.13
// have the alignment in the call, not in the cache, and have ucs_rcache_set_default_params.
template <typename Parameters>
bool made_for(void* ucs) {
  constexpr bool headers_before = requires(Parameters parameters) { parameters.max_alignment; };
  const bool library_before = dlsym(ucs, "ucs_rcache_set_default_params") == nullptr;
  return headers_before == library_before;
}

const char* load(Ucx& ucx) {
  // Never unloaded: libc jumps into it.
  constexpr int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  const KeepSignalHandlers keep;
  void* const ucs = dlopen("libucs.so.0", flags);
  void* const ucm = ucs != nullptr ? dlopen("libucm.so.0", flags) : nullptr;
  if (ucm == nullptr) return "UCX (libucs.so.0, libucm.so.0; package libucx0) is not installed";
  if (!made_for<ucs_rcache_params_t>(ucs)) return "weir was built for another version of UCX";
  const bool all = find(ucs, "ucs_rcache_create", ucx.rcache_create) &&
                   find(ucs, "ucs_rcache_destroy", ucx.rcache_destroy) &&
                   find(ucs, "ucs_rcache_get", ucx.rcache_get) &&
                   find(ucs, "ucs_rcache_region_put", ucx.rcache_region_put) &&
                   find(ucs, "ucs_rcache_region_invalidate", ucx.rcache_region_invalidate) &&
                   find(ucs, "ucs_status_string", ucx.status_string) &&
                   find(ucm, "ucm_set_event_handler", ucx.set_event_handler) &&
                   find(ucm, "ucm_unset_event_handler", ucx.unset_event_handler) &&
                   find(ucm, "ucm_set_external_event", ucx.set_external_event) &&
                   find(ucm, "ucm_vm_munmap", ucx.vm_munmap) &&
                   find(ucm, "ucm_global_opts", ucx.ucm_options);
  return all ? nullptr : "this version of UCX has no registration cache that weir knows";
}

}  // namespace

const Ucx* load_ucx(std::string& why) {
  static Ucx ucx;
  static const char* const problem = load(ucx);
  if (problem == nullptr) return &ucx;
  why = problem;
  return nullptr;
}

bool is_ucx_loaded() {
  void* const ucm = dlopen("libucm.so.0", RTLD_NOW | RTLD_NOLOAD);
  if (ucm != nullptr) dlclose(ucm);
  return ucm != nullptr;
}

}  // namespace weir::verbs
