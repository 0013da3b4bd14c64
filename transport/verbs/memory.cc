#include "transport/verbs/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

namespace weir::verbs {

ibv_mr* register_memory(ibv_pd* domain, void* address, std::size_t bytes, int access) {
  static std::atomic<bool> refused{false};
  constexpr int by_peers = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  const bool relaxed = (access & by_peers) == 0 && !refused.load(std::memory_order_relaxed);
  ibv_mr* registration = ibv_reg_mr(domain, address, bytes,
                                    relaxed ? access | IBV_ACCESS_RELAXED_ORDERING : access);
  if (registration == nullptr && relaxed && (errno == EOPNOTSUPP || errno == EINVAL)) {
    registration = ibv_reg_mr(domain, address, bytes, access);
    if (registration != nullptr) refused.store(true, std::memory_order_relaxed);
  }
  return registration;
}

void RegisteredMemory::Unmap::operator()(void* address) const { munmap(address, bytes); }

RegisteredMemory RegisteredMemory::allocate(const Device& device, std::size_t bytes, int access) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  RegisteredMemory memory;
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return memory;
  memory.map_ = {address, Unmap{bytes}};
  memory.mr_.reset(register_memory(device.pd(), address, bytes, access));
  return memory;
}

RegisteredMemory RegisteredMemory::allocate(const Device& device, std::size_t bytes) {
  return allocate(device, bytes, IBV_ACCESS_LOCAL_WRITE);
}

RegisteredMemory RegisteredMemory::to_be_read(const Device& device, std::size_t bytes) {
  return allocate(device, bytes, IBV_ACCESS_REMOTE_READ);
}

RegisteredMemory RegisteredMemory::for_peers(const Device& device, std::size_t bytes) {
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  if (device.limits().atomic_cap != IBV_ATOMIC_NONE) access |= IBV_ACCESS_REMOTE_ATOMIC;
  return allocate(device, bytes, access);
}

RegisteredMemory RegisteredMemory::to_send_from(const Device& device, std::byte* at,
                                                std::size_t bytes) {
  RegisteredMemory memory;
  memory.mr_.reset(register_memory(device.pd(), at, bytes, 0));  // 0: local reads only
  return memory;
}

bool survive_forks() {
  if (ibv_is_fork_initialized() != IBV_FORK_DISABLED) return true;
  errno = ibv_fork_init();
  return errno == 0;
}

bool may_lock_anything() {
  // Only CAP_IPC_LOCK of the initial user namespace counts; that maps all ids to themselves.
  std::uint64_t inside = 1, outside = 1, count = 0;
  std::ifstream("/proc/self/uid_map") >> inside >> outside >> count;
  if (inside != 0 || outside != 0 || count < UINT32_MAX) return false;
  constexpr unsigned cap_ipc_lock = 14;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "CapEff:") continue;
    std::uint64_t mask = 0;
    status >> std::hex >> mask;
    return (mask >> cap_ipc_lock & 1) != 0;
  }
  return false;
}

std::string registration_error(int error) {
  std::string text = std::strerror(error);
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      !may_lock_anything()) {
    text += "; the locked-memory limit is " + std::to_string(limit.rlim_cur / 1024) +
            " KiB: raise it (ulimit -l unlimited, or memlock in /etc/security/limits.conf)";
  }
  return text;
}

}  // namespace weir::verbs
