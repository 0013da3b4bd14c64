#include "transport/btl/endpoint.h"

namespace weir::btl {

Endpoint* Endpoints::add(PeerName name, PeerId id, opal_proc_t* proc) {
  std::lock_guard guard(lock_);
  Endpoint* endpoint = find(id);
  if (endpoint == nullptr) {
    endpoint = &all_.emplace_back();
    endpoint->id = id;
    endpoint->name = name;
    engine_.set_above(id, endpoint);
  }
  if (proc != nullptr) {
    endpoint->proc = proc;
    endpoint->leaving.store(false, std::memory_order_relaxed);
  }
  return endpoint;
}

std::uint32_t Endpoints::size() const {
  std::lock_guard guard(lock_);
  return static_cast<std::uint32_t>(all_.size());
}

}  // namespace weir::btl
