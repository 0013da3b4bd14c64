#include "transport/engine/slot_pool.h"

namespace weir {

bool SlotPool::grow(Size size, std::uint64_t most_bytes) {
  const std::uint32_t each = slot_bytes_[size];
  const std::size_t bytes = std::size_t{each} * slab_slots;
  // The first slab of a size does not count: without it nobody could be served.
  const bool first = std::none_of(slabs_.begin(), slabs_.end(),
                                  [size](const auto& slab) { return slab->size == size; });
  if (!first && counters_.send_bytes + bytes > most_bytes) return false;
  auto slab = std::make_unique<Slab>(Slab{verbs::RegisteredMemory::allocate(device_, bytes),
                                          std::make_unique<SendSlot[]>(slab_slots), size});
  if (!slab->memory) {
    ++counters_.slab_failures;
    return false;
  }
  for (std::uint32_t i = slab_slots; i-- > 0;) {
    SendSlot& slot = slab->slots[i];
    slot.frame = slab->memory.data() + std::size_t{each} * i;
    slot.capacity_bytes = each;
    slot.lkey = slab->memory.lkey();
    slot.pool = size;
    slot.slab = slab.get();
    put(&slot);
  }
  counters_.send_bytes += bytes;
  slabs_.push_back(std::move(slab));
  return true;
}

void SlotPool::shrink() {
  for (const Size size : {small, full}) {
    const std::size_t unneeded = free_[size].least / slab_slots;
    if (unneeded > 1) drop(size, std::min((unneeded + 1) / 2, most_dropped));
    free_[size].least = free_[size].count;
  }
}

// Gives back up to `most` slabs none of whose slots is in use.
void SlotPool::drop(Size size, std::size_t most) {
  List& list = free_[size];
  const auto slab_of = [](const SendSlot* slot) { return static_cast<Slab*>(slot->slab); };
  for (const auto& slab : slabs_) slab->idle = 0;
  for (const SendSlot* slot = list.first; slot != nullptr; slot = slot->next) ++slab_of(slot)->idle;

  // The youngest first: the oldest are those that are needed always.
  std::size_t dropped = 0;
  for (auto slab = slabs_.rbegin(); slab != slabs_.rend() && dropped < most; ++slab) {
    (*slab)->goes = (*slab)->size == size && (*slab)->idle == slab_slots;
    if ((*slab)->goes) ++dropped;
  }
  if (dropped == 0) return;
  SendSlot** link = &list.first;
  while (*link != nullptr) {
    if (slab_of(*link)->goes) {
      *link = (*link)->next;
    } else {
      link = &(*link)->next;
    }
  }
  list.count -= dropped * slab_slots;
  counters_.send_bytes -= std::uint64_t{slot_bytes_[size]} * slab_slots * dropped;
  std::erase_if(slabs_, [](const auto& slab) { return slab->goes; });
}

}  // namespace weir
