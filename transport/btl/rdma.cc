// Large messages and one-sided operations, as ob1 and osc/rdma ask for them. None is refused
// because there are too many: ob1 turns a refused get into copies, and hangs if it is one of
// several. Operations beyond the read budget wait in the core.

#include <cstring>
#include <exception>
#include <optional>

#include "transport/btl/capability.h"
#include "transport/btl/lookup.h"
#include "transport/btl/module.h"
#include "transport/btl/report.h"

namespace weir::btl {
namespace {

// Open MPI's flags have the same bits.
static_assert(MCA_BTL_REG_FLAG_LOCAL_WRITE == static_cast<int>(Access::local_write));
static_assert(MCA_BTL_REG_FLAG_REMOTE_READ == static_cast<int>(Access::remote_read));
static_assert(MCA_BTL_REG_FLAG_REMOTE_WRITE == static_cast<int>(Access::remote_write));
static_assert(MCA_BTL_REG_FLAG_REMOTE_ATOMIC == static_cast<int>(Access::remote_atomic));

struct Local {
  void* address;
  Handle* handle;
};

struct Remote {
  std::uint64_t address;
  Handle* handle;        // the peer's: only `exported` is set
  bool is_ours = false;  // the handle is for this operation, and given back at its end
};

struct Callback {
  mca_btl_base_rdma_completion_fn_t function;
  void* context;
  void* data;
};

std::uint32_t lkey_of(const Local& local) {
  return local.handle != nullptr ? local.handle->registration->lkey : 0;
}

// Whether the memory belongs to a window: it is for no peer in particular, and peers have rights.
bool is_exported(const Endpoint* endpoint, Access access) {
  constexpr Access remote = Access::remote_read | Access::remote_write | Access::remote_atomic;
  return endpoint == MCA_BTL_ENDPOINT_ANY && (access & remote) != Access::local_read;
}

// Peers can read what its owner may only read, too: `access` becomes the rights that there are.
verbs::Registration* register_as_allowed(verbs::RegistrationCache& cache, void* base,
                                         std::size_t size, Access& access, bool exported) {
  verbs::Registration* const all = cache.get(base, size, access);
  const bool is_full = errno == ENOMEM || errno == ENOSPC;
  if (all != nullptr || is_full || !exported || !includes(access, Access::remote_read)) return all;
  access = Access::remote_read;
  return cache.get(base, size, access);
}

// nullptr makes ob1 copy instead. A registration is for all peers, whatever `endpoint` is.
Handle* register_mem(mca_btl_base_module_t* btl, Endpoint* endpoint, void* base, std::size_t size,
                     std::uint32_t flags) noexcept {
  Module& module = of(btl);
  if (!module.start() || module.registrations() == nullptr) return nullptr;
  try {
    const auto wanted = static_cast<Access>(flags & MCA_BTL_REG_FLAG_ACCESS_ANY);
    const bool exported = is_exported(endpoint, wanted);
    Access access = wanted;
    verbs::Registration* const registration =
        register_as_allowed(*module.registrations(), base, size, access, exported);
    if (registration == nullptr) {
      module.warn_no_registration(errno);
      return nullptr;
    }
    Handle* const handle = module.handles.get();
    handle->registration = registration;
    handle->exported = {.memory = Export::of(registration->rkey,
                                             reinterpret_cast<std::uint64_t>(registration->address),
                                             registration->length_bytes, without(wanted, access))};
    handle->listed = Directory::nowhere;
    handle->reader = module.trains.is_in_place_of_one(endpoint, access, size) ? endpoint : nullptr;
    if (module.rails != nullptr) {
      module.rails->engines.register_memory(*handle, base, size, access, exported);
    }
    if (handle->reader != nullptr) module.trains.on_announced(*endpoint);
    Directory* const directory = exported ? module.directory() : nullptr;
    if (directory != nullptr) {
      handle->listed = directory->add(handle->exported.memory);
      directory->show(handle->exported);
    }
    return handle;
  } catch (const std::exception&) {
    return nullptr;
  }
}

int deregister_mem(mca_btl_base_module_t* btl, Handle* handle) noexcept {
  Module& module = of(btl);
  if (handle->listed != Directory::nowhere) module.directory()->remove(handle->listed);
  if (handle->reader != nullptr) module.trains.on_read(*handle->reader);
  if (module.rails != nullptr) module.rails->engines.deregister(*handle);
  module.registrations()->put(handle->registration);
  module.handles.put(handle);
  return OPAL_SUCCESS;
}

// The handle names other memory than the operation asks for: looks the key up at the target.
[[gnu::cold, gnu::noinline]] int look_elsewhere(Module& module, Operation& operation,
                                                const TransferRequest& request,
                                                const Handle& handle) {
  const Operation waiting = operation;
  module.operations.release(operation);
  if (look_up(module, waiting, request, read_shared(handle.exported))) return OPAL_SUCCESS;
  report_unknown_memory(module, waiting, request);
  if (waiting.scratch != nullptr) module.engine->discard(waiting.scratch);
  module.flushes.end(waiting.epoch);
  return OPAL_ERR_BAD_PARAM;
}

[[gnu::noinline]] void transfer_over_rails(Module& module, Operation& operation,
                                           const Handle& remote, const TransferRequest& request) {
  const Exported seen = read_shared(remote.exported);
  const SideExport sides = seen.memory == operation.memory ? seen.whole_sides() : SideExport{};
  module.rails->parts.transfer(*operation.endpoint, operation, sides, request);
}

[[gnu::cold, gnu::noinline]] int give_up_start(Module& module, SendSlot* scratch,
                                               const std::exception& problem) {
  if (scratch != nullptr) module.engine->discard(scratch);
  complain(std::string("cannot start a one-sided operation: ") + problem.what() + ".");
  return OPAL_ERR_OUT_OF_RESOURCE;
}

// The peer's memory lacks the right. osc/rdma hands an error on to the program. Where it cannot,
// the job ends: it repeats the put of one piece of memory for ever, and after a swap it waits for
// ever.
[[gnu::cold, gnu::noinline]] int refuse(Module& module, const Endpoint& endpoint,
                                        const TransferRequest& request, const Export& memory) {
  const Counters& counters = module.engine->counters();
  const auto verdict = module.refusals.judge(request, counters.gets + counters.puts);
  if (verdict.is_new) {
    complain(to_text(request, memory) + " of " + rank_text(endpoint.name) +
             " is refused: its owner may only read that memory, or the kernel lets nobody pin it "
             "for writing. Give a window that others write to memory that can be written.");
  }
  if (verdict.is_hopeless) {
    static char text[] = "the program wrote to read-only memory; see weir's message above";
    module.end_job(nullptr, text);
  }
  return is_atomic(request.opcode) ? OPAL_ERR_NOT_SUPPORTED : OPAL_ERR_BAD_PARAM;
}

// The peer is dead. The PML is refused, for the end might come after it has taken back the request.
// What osc/rdma begins is accepted, and ends in an error: it repeats what is refused for ever, and
// aborts where that frees a lock (5.0.7). The atomic operations that take one are refused as long
// as it may be the program's. Then the lock is had: nobody else can have it.
[[gnu::cold, gnu::noinline]] int end_with_dead(Module& module, Endpoint* endpoint,
                                               const Local& local, const TransferRequest& request,
                                               const Callback& callback) {
  if (is_of_pml(callback.context, &module, endpoint)) return OPAL_ERR_UNREACH;
  if (is_atomic(request.opcode) && local.address != nullptr) {
    if (!module.deaths.is_endless(request)) return OPAL_ERR_UNREACH;
    const std::uint64_t unlocked = 0;
    std::memcpy(local.address, &unlocked, sizeof unlocked);
  }
  module.deaths.on_failure(*endpoint, callback.context);
  if (callback.function != nullptr) {
    callback.function(&module, endpoint, local.address, local.handle, callback.context,
                      callback.data, OPAL_ERR_UNREACH);
  }
  return OPAL_SUCCESS;
}

// Starts an operation; `callback` reports its end. Inlined, because it has many arguments.
[[gnu::always_inline]] inline int start(Module& module, Endpoint* endpoint, const Local& local,
                                        const Remote& remote, TransferRequest request,
                                        const Callback& callback) noexcept {
  request.kind = request.opcode == Opcode::write ? TransferKind::put : TransferKind::get;
  request.peer = endpoint->id;
  request.local_address = reinterpret_cast<std::uint64_t>(local.address);
  request.lkey = lkey_of(local);
  request.remote_address = remote.address;
  if (deaths_may_be_survivable && endpoint->leaving.load(std::memory_order_relaxed)) [[unlikely]]
    return end_with_dead(module, endpoint, local, request, callback);
  const Export memory = read_shared(remote.handle->exported.memory);
  request.rkey = memory.rkey;
  if (!memory.allows(request.opcode)) [[unlikely]]
    return refuse(module, *endpoint, request, memory);
  SendSlot* scratch = nullptr;
  Operation* operation = nullptr;
  try {
    if (local.address == nullptr) [[unlikely]] {
      scratch = module.engine->acquire(sizeof(std::uint64_t));
      if (scratch == nullptr) return OPAL_ERR_OUT_OF_RESOURCE;  // osc/rdma tries again
      request.local_address = reinterpret_cast<std::uint64_t>(scratch->payload());
      request.lkey = scratch->lkey;
    }
    operation = &module.operations.take({.callback = callback.function,
                                         .context = callback.context,
                                         .data = callback.data,
                                         .endpoint = endpoint,
                                         .local_address = local.address,
                                         .local_handle = local.handle,
                                         .scratch = scratch,
                                         .target = remote.is_ours ? remote.handle : nullptr,
                                         .memory = memory});
  } catch (const std::exception& problem) {
    return give_up_start(module, scratch, problem);
  }
  operation->epoch = module.flushes.begin();
  // Without bytes, nothing is touched: the window may have none, and so no memory.
  if (!memory.covers(remote.address, request.length_bytes) && request.length_bytes != 0)
      [[unlikely]]
    return look_elsewhere(module, *operation, request, *remote.handle);
  request.token = Operations::token(*operation);
  // From here on the adapter may have the operation: if memory runs out now, the process must end.
  if (module.rails != nullptr) {
    transfer_over_rails(module, *operation, *remote.handle, request);
  } else {
    module.engine->transfer(request);
  }
  return OPAL_SUCCESS;
}

[[gnu::hot]] int get(mca_btl_base_module_t* btl, Endpoint* endpoint, void* local_address,
                     std::uint64_t remote_address, Handle* local_handle, Handle* remote_handle,
                     std::size_t size, int, int, mca_btl_base_rdma_completion_fn_t callback,
                     void* context, void* data) noexcept {
  return start(of(btl), endpoint, {local_address, local_handle}, {remote_address, remote_handle},
               {.length_bytes = size, .opcode = Opcode::read}, {callback, context, data});
}

[[gnu::hot]] int put(mca_btl_base_module_t* btl, Endpoint* endpoint, void* local_address,
                     std::uint64_t remote_address, Handle* local_handle, Handle* remote_handle,
                     std::size_t size, int, int, mca_btl_base_rdma_completion_fn_t callback,
                     void* context, void* data) noexcept {
  return start(of(btl), endpoint, {local_address, local_handle}, {remote_address, remote_handle},
               {.length_bytes = size, .opcode = Opcode::write}, {callback, context, data});
}

// What adapters can do: add and compare-swap of aligned words of 64 bits. A post of anything else
// fails, and with it the connection. osc/rdma builds the rest from gets and puts if it gets
// OPAL_ERR_NOT_SUPPORTED. btl.h names OPAL_ERR_NOT_AVAILABLE, but with that get_accumulate of 4.1
// does not end.
bool adapter_can(int flags, std::uint64_t remote_address, const void* result) {
  const std::uint64_t both = remote_address | reinterpret_cast<std::uint64_t>(result);
  return (flags & MCA_BTL_ATOMIC_FLAG_32BIT) == 0 && both % sizeof(std::uint64_t) == 0;
}

[[gnu::hot]] int fetch(mca_btl_base_module_t* btl, Endpoint* endpoint, void* local_address,
                       std::uint64_t remote_address, Handle* local_handle, Handle* remote_handle,
                       mca_btl_base_atomic_op_t op, std::uint64_t operand, int flags, int,
                       mca_btl_base_rdma_completion_fn_t callback, void* context,
                       void* data) noexcept {
  if (op != MCA_BTL_ATOMIC_ADD || !adapter_can(flags, remote_address, local_address))
    return OPAL_ERR_NOT_SUPPORTED;
  return start(of(btl), endpoint, {local_address, local_handle}, {remote_address, remote_handle},
               {.length_bytes = 8, .opcode = Opcode::fetch_add, .operand = operand},
               {callback, context, data});
}

int add(mca_btl_base_module_t* btl, Endpoint* endpoint, std::uint64_t remote_address,
        Handle* remote_handle, mca_btl_base_atomic_op_t op, std::uint64_t operand, int flags,
        int order, mca_btl_base_rdma_completion_fn_t callback, void* context, void* data) noexcept {
  return fetch(btl, endpoint, nullptr, remote_address, nullptr, remote_handle, op, operand, flags,
               order, callback, context, data);
}

// Memory that osc/rdma can reach by itself (ours, or shared on this node) has no handle, and its
// address is valid in this process. 4.1 asks for a compare-and-swap there as anywhere else. Only
// the adapter's operation is atomic with those of other processes, so it goes through a connection
// to ourselves.
int compare_swap_here(Module& module, const Local& local, std::uint64_t address,
                      const TransferRequest& request, const Callback& callback) noexcept {
  Endpoint* const self = module.endpoints.find(to_name(opal_proc_local_get()->proc_name));
  if (self == nullptr) return OPAL_ERR_NOT_SUPPORTED;
  Handle* const handle =
      register_mem(&module, self, reinterpret_cast<void*>(address), sizeof(std::uint64_t),
                   MCA_BTL_REG_FLAG_LOCAL_WRITE | MCA_BTL_REG_FLAG_REMOTE_ATOMIC);
  if (handle == nullptr) return OPAL_ERR_NOT_SUPPORTED;
  const int rc = start(module, self, local, {address, handle, true}, request, callback);
  if (rc != OPAL_SUCCESS) deregister_mem(&module, handle);
  return rc;
}

int compare_swap(mca_btl_base_module_t* btl, Endpoint* endpoint, void* local_address,
                 std::uint64_t remote_address, Handle* local_handle, Handle* remote_handle,
                 std::uint64_t compare, std::uint64_t value, int flags, int,
                 mca_btl_base_rdma_completion_fn_t callback, void* context, void* data) noexcept {
  if (!adapter_can(flags, remote_address, local_address)) return OPAL_ERR_NOT_SUPPORTED;
  const TransferRequest request{
      .length_bytes = 8, .opcode = Opcode::compare_swap, .operand = value, .compare = compare};
  const Local local{local_address, local_handle};
  if (remote_handle == nullptr) {
    return compare_swap_here(of(btl), local, remote_address, request, {callback, context, data});
  }
  return start(of(btl), endpoint, local, {remote_address, remote_handle}, request,
               {callback, context, data});
}

// For one peer or for all: Open MPI asks for all. Always ends: a peer that does not answer is given
// up after peer_timeout, together with everything under way to it.
[[gnu::hot]] int flush(mca_btl_base_module_t* btl, Endpoint*) noexcept {
  Module& module = of(btl);
  module.flushes.flush([&] { progress(module); });
  return OPAL_SUCCESS;
}

}  // namespace

void set_rdma_entry_points(mca_btl_base_module_t& module) {
  module.btl_registration_handle_size = handle_bytes;
  module.btl_register_mem = register_mem;
  module.btl_deregister_mem = deregister_mem;
  module.btl_get = get;
  module.btl_put = put;
  module.btl_flush = flush;
  module.btl_atomic_op = add;
  module.btl_atomic_fop = fetch;
  module.btl_atomic_cswap = compare_swap;
  module.btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_CSWAP;
}

void offer_rdma(Module& module) {
  const ibv_device_attr& limits = module.engine->device().limits();
  const verbs::PortChoice& port = module.engine->port();
  // All devices of Soft-RoCE have one lock for atomics. (kernel, sw/rxe/rxe_resp.c)
  const bool mixed = port.mixed_node && !port.soft_roce;
  const Offer offer =
      what_to_offer({module.btl_flags, module.btl_atomic_flags},
                    {limits.atomic_cap, limits.max_qp_init_rd_atom, mixed}, module.spreads());
  module.btl_flags = offer.flags;
  module.btl_atomic_flags = offer.atomic_flags;
  if ((offer.flags & MCA_BTL_FLAGS_GET) == 0) module.btl_get = nullptr;
  if ((offer.flags & MCA_BTL_FLAGS_PUT) == 0) module.btl_put = nullptr;
  if (offer.atomic_flags != 0) return;
  if (mixed) {
    note(10,
         "offers no atomics: processes of this host use several adapters. Name one with "
         "btl_weir_device");
  }
  module.btl_atomic_op = nullptr;
  module.btl_atomic_fop = nullptr;
  module.btl_atomic_cswap = nullptr;
}

namespace {

// The step of a part is over. With its last part, the operation is over, too.
[[gnu::noinline]] void finish_part(Module& module, const Operation& done, bool ok, bool tell) {
  const std::optional<TransferEnd> whole = module.rails->parts.finish(done, ok, tell);
  if (whole) finish_operation(module, *whole, tell);
}

}  // namespace

// Called by progress: without a lock, in order.
void finish_operation(Module& module, const TransferEnd& end, bool tell) {
  Operation* const done = module.operations.end(end.token);
  if (done == nullptr) return;  // reported twice: see leaks.cc
  if (done->lookup != nullptr) [[unlikely]] {
    finish_lookup(module, *done, end.ok, tell);
  } else if (done->part != nullptr) [[unlikely]] {
    finish_part(module, *done, end.ok, tell);
  } else {
    conclude(module, *done, end.ok, tell);
  }
  module.operations.release(*done);
}

void conclude(Module& module, const Operation& done, bool ok, bool tell) {
  if (done.scratch != nullptr) module.engine->discard(done.scratch);
  if (done.target != nullptr) deregister_mem(&module, done.target);
  module.flushes.end(done.epoch);
  if (!tell || module.deaths.took_back(done.endpoint, done.context)) return;
  if (deaths_may_be_survivable && !ok) [[unlikely]]
    module.deaths.on_failure(*done.endpoint, done.context);
  if (done.callback == nullptr) return;
  done.callback(&module, done.endpoint, done.local_address, done.local_handle, done.context,
                done.data, ok ? OPAL_SUCCESS : OPAL_ERR_UNREACH);
}

}  // namespace weir::btl
