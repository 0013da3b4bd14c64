#include "transport/btl/endpoint.h"

namespace weir::btl {

Endpoint* EndpointTable::find(PeerName name) const {
  std::lock_guard guard(lock_);
  const auto found = by_name_.find(key(name));
  return found == by_name_.end() ? nullptr : found->second.get();
}

Endpoint* EndpointTable::find(PeerId id) const {
  std::lock_guard guard(lock_);
  return index(id) < by_id_.size() ? by_id_[index(id)] : nullptr;
}

Endpoint* EndpointTable::add(PeerName name, PeerId id, opal_proc_t* proc) {
  std::lock_guard guard(lock_);
  std::unique_ptr<Endpoint>& place = by_name_[key(name)];
  if (place == nullptr) place = std::make_unique<Endpoint>();
  place->id = id;
  place->name = name;
  place->proc = proc;
  place->leaving.store(false, std::memory_order_relaxed);
  if (by_id_.size() <= index(id)) by_id_.resize(index(id) + 1);
  by_id_[index(id)] = place.get();
  return place.get();
}

std::uint32_t EndpointTable::size() const {
  std::lock_guard guard(lock_);
  return static_cast<std::uint32_t>(by_name_.size());
}

}  // namespace weir::btl
