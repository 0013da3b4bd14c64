// One-sided operations as Open MPI sees them: the handle of registered memory, and what is to be
// called back when an operation is over.
#pragma once

#include "transport/btl/compat.h"
#include "transport/btl/endpoint.h"
#include "transport/lane/send_slot.h"
#include "transport/verbs/registration_cache.h"

// The type is ours, its name is not. Open MPI hands the first `handle_bytes` of it to peers, and
// carries pointers to whole ones about in this process.
struct mca_btl_base_registration_handle_t {
  std::uint64_t rkey = 0;
  // From here on only in this process.
  weir::verbs::Registration* registration = nullptr;
  mca_btl_base_registration_handle_t* next = nullptr;
};

namespace weir::btl {

using Handle = mca_btl_base_registration_handle_t;

inline constexpr std::size_t handle_bytes = sizeof(Handle::rkey);

// A get, put or atomic under way.
struct Operation {
  mca_btl_base_rdma_completion_fn_t callback = nullptr;
  void* context = nullptr;
  void* data = nullptr;
  Endpoint* endpoint = nullptr;
  void* local_address = nullptr;
  Handle* local_handle = nullptr;
  SendSlot* scratch = nullptr;  // where the result of an atomic lands that nobody wants
  Handle* target = nullptr;     // of memory registered for this operation only
  Operation* next = nullptr;
};

}  // namespace weir::btl
