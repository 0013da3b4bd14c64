#include "transport/btl/lookup.h"

#include <algorithm>
#include <exception>
#include <span>

#include "transport/btl/report.h"

namespace weir::btl {

bool look_up(Module& module, const Operation& operation, const TransferRequest& request,
             const Exported& seen) {
  const auto most = module.engine->max_payload_bytes() / static_cast<std::uint32_t>(sizeof(Export));
  const std::uint32_t entries = std::min<std::uint32_t>(seen.directory_entries, most);
  if (entries == 0) return false;
  Operation reading{.endpoint = operation.endpoint};
  TransferRequest get{.peer = request.peer, .length_bytes = entries * sizeof(Export)};
  get.opcode = Opcode::read;
  try {
    reading.scratch = module.engine->acquire(static_cast<std::uint32_t>(get.length_bytes));
    if (reading.scratch == nullptr) return false;
    reading.lookup = module.lookups.get();
    reading.lookup->operation = operation;
    reading.lookup->request = request;
    reading.lookup->entries = entries;
    get.token = module.operations.begin(reading);
  } catch (const std::exception&) {
    if (reading.lookup != nullptr) module.lookups.put(reading.lookup);
    if (reading.scratch != nullptr) module.engine->discard(reading.scratch);
    return false;
  }
  get.local_address = reinterpret_cast<std::uint64_t>(reading.scratch->payload());
  get.lkey = reading.scratch->lkey;
  get.remote_address = seen.directory_address;
  get.rkey = seen.directory_rkey;
  add_to(module.rdma_counters.keys_looked_up);
  module.engine->transfer(get);
  return true;
}

void finish_lookup(Module& module, const Operation& done, bool ok, bool tell) {
  Operation operation = done.lookup->operation;
  TransferRequest request = done.lookup->request;
  const std::span directory(reinterpret_cast<const Export*>(done.scratch->payload()),
                            done.lookup->entries);
  module.lookups.put(done.lookup);
  const Export* const memory =
      ok ? find_export(directory, request.remote_address, request.length_bytes) : nullptr;
  if (memory != nullptr) {
    operation.memory = *memory;
    request.rkey = memory->rkey;
  }
  module.engine->discard(done.scratch);
  if (memory == nullptr || !operation.memory.allows(request.opcode)) {
    // A failed status is not enough: osc/rdma ignores the status of some operations, and would take
    // the data as valid.
    if (ok && tell) report_unknown_memory(module, operation, request);
    return conclude(module, operation, false, tell);
  }
  try {
    request.token = module.operations.begin(operation);
  } catch (const std::exception& problem) {
    complain(std::string("cannot go on with a one-sided operation: ") + problem.what() + ".");
    return conclude(module, operation, false, tell);
  }
  module.engine->transfer(request);
}

void report_unknown_memory(Module& module, const Operation& operation,
                           const TransferRequest& request) {
  Endpoint* const endpoint = operation.endpoint;
  complain(to_text(request, operation.memory) + " of " + rank_text(endpoint->name) +
           ", which has not registered that memory for this. Attach memory to the window before "
           "others use it, and detach it when they are done. What others write to must not be "
           "read-only.");
  static char text[] =
      "the program used memory that its owner has not registered; see weir's message above";
  module.end_job(endpoint->proc, text);
}

}  // namespace weir::btl
