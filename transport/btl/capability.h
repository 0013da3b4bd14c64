// Which one-sided operations to offer to Open MPI. Operations that the device cannot do right are
// not offered, because Open MPI has other ways then.
#pragma once

#include <infiniband/verbs.h>

#include "transport/btl/compat.h"

namespace weir::btl {

struct Capability {
  ibv_atomic_cap atomics;
  int fetches;              // max_qp_init_rd_atom: reads and atomics that a queue pair may start
  bool mixed_node = false;  // processes of this node use several adapters
};

struct Offer {
  std::uint32_t flags;         // for btl_flags
  std::uint32_t atomic_flags;  // for btl_atomic_flags
};

// `spread`: the message that announces a put may take another adapter, and arrive before the put.
constexpr Offer what_to_offer(const Offer& wanted, const Capability& device, bool spread) {
  constexpr std::uint32_t atomics = MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS;
  std::uint32_t flags = wanted.flags;
  if (spread) flags &= ~std::uint32_t{MCA_BTL_FLAGS_PUT};
  if (device.fetches <= 0) flags &= ~std::uint32_t{MCA_BTL_FLAGS_GET};
  // With HCA two adapters may change a word at the same time. [IBTA 9.4.5] osc/rdma has words that
  // each process of a node changes through its own adapter.
  const bool can = !spread && device.fetches > 0 &&
                   (device.atomics == IBV_ATOMIC_GLOB ||
                    (device.atomics == IBV_ATOMIC_HCA && !device.mixed_node));
  if (!can) return {flags & ~atomics, 0};
  std::uint32_t atomic_flags = wanted.atomic_flags;
  // Only with GLOB may the processor's own atomics use the same memory.
  if (device.atomics == IBV_ATOMIC_GLOB) atomic_flags |= MCA_BTL_ATOMIC_SUPPORTS_GLOB;
  return {flags, atomic_flags};
}

}  // namespace weir::btl
