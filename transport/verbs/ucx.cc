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

// UCX does not promise this interface: functions get other parameters and structures other members,
// under one soname. Only libucp tells the version.
std::string made_for_another(void* ucp) {
  decltype(&ucp_get_version) get_version = nullptr;
  if (!find(ucp, "ucp_get_version", get_version)) return "this UCX does not say its version";
  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;
  get_version(&major, &minor, &patch);
  if (major == UCP_API_MAJOR && minor == UCP_API_MINOR) return {};
  const std::string there = std::to_string(major) + "." + std::to_string(minor);
  return "UCX " + there + " is installed, and weir was built for " + std::to_string(UCP_API_MAJOR) +
         "." + std::to_string(UCP_API_MINOR) + "; build weir again with the headers of UCX " + there;
}

std::string load(Ucx& ucx) {
  // Never unloaded: libc jumps into it.
  constexpr int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  const KeepSignalHandlers keep;
  void* const ucs = dlopen("libucs.so.0", flags);
  void* const ucm = ucs != nullptr ? dlopen("libucm.so.0", flags) : nullptr;
  void* const ucp = ucm != nullptr ? dlopen("libucp.so.0", flags) : nullptr;
  if (ucp == nullptr) {
    return "UCX (libucs.so.0, libucm.so.0, libucp.so.0; package libucx0) is not installed";
  }
  if (std::string another = made_for_another(ucp); !another.empty()) return another;
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
  return all ? "" : "this version of UCX has no registration cache that weir knows";
}

}  // namespace

const Ucx* load_ucx(std::string& why) {
  static Ucx ucx;
  static const std::string& problem = *new std::string(load(ucx));  // outlives static destructors
  if (problem.empty()) return &ucx;
  why = problem;
  return nullptr;
}

bool is_ucx_loaded() {
  void* const ucm = dlopen("libucm.so.0", RTLD_NOW | RTLD_NOLOAD);
  if (ucm != nullptr) dlclose(ucm);
  return ucm != nullptr;
}

}  // namespace weir::verbs
