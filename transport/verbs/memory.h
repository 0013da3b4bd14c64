// Memory registered with the adapter: its own, which is unmapped with the registration, or lent.
//
// Thread rule: any thread makes and destroys its own.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>
#include <string>

#include "transport/verbs/device.h"

namespace weir::verbs {

// Registers memory like ibv_reg_mr(3), and lets the adapter write it in any order if no peer may
// write there: then completions alone tell that data has arrived. Such writes pass others on the
// PCI bus (relaxed ordering). A window may be polled, so its writes stay in order. A kernel that
// knows no relaxed ordering gets the same registration without. nullptr, with errno set, on failure.
//
// Thread rule: any thread.
ibv_mr* register_memory(ibv_pd* domain, void* address, std::size_t bytes, int access);

class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  RegisteredMemory(RegisteredMemory&&) noexcept = default;
  RegisteredMemory& operator=(RegisteredMemory&&) noexcept = default;

  // `bytes` of zeroed memory, rounded up to pages, for local access only (sends and receives).
  // Empty, with errno set, if it cannot be allocated or registered.
  static RegisteredMemory allocate(const Device& device, std::size_t bytes);

  // The same, for peers to read by `rkey`.
  static RegisteredMemory to_be_read(const Device& device, std::size_t bytes);

  // The same, for peers to read and write, by atomics too where the device has them.
  static RegisteredMemory for_peers(const Device& device, std::size_t bytes);

  // Lent memory, in whole pages, that the adapter may only send from; it outlives this object.
  // Empty, with errno set, if it cannot be registered.
  static RegisteredMemory to_send_from(const Device& device, std::byte* at, std::size_t bytes);

  explicit operator bool() const { return mr_ != nullptr; }
  std::byte* data() const { return static_cast<std::byte*>(map_.get()); }
  std::uint32_t lkey() const { return mr_->lkey; }
  std::uint32_t rkey() const { return mr_->rkey; }

 private:
  static RegisteredMemory allocate(const Device& device, std::size_t bytes, int access);

  struct Unmap {
    std::size_t bytes;
    void operator()(void* address) const;
  };

  std::unique_ptr<void, Unmap> map_{nullptr, Unmap{0}};  // before mr_, which is deregistered first
  std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>> mr_;
};

// Makes forks safe where the kernel does not copy registered pages for the child (before Linux
// 5.12): there the parent's first write after a fork would move the page away from the adapter.
// libibverbs then keeps these pages from children. Call it before the process registers anything;
// an earlier ibv_fork_init by others does no harm. False, with errno set: forks stay dangerous.
bool survive_forks();

// Whether this process may lock more than RLIMIT_MEMLOCK, as root may. Reads files of /proc.
bool may_lock_anything();

// Why a registration failed, with the locked-memory limit in words.
std::string registration_error(int error);

}  // namespace weir::verbs
