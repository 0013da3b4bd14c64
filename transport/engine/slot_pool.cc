#include "transport/engine/slot_pool.h"

namespace weir {

bool SlotPool::grow(Size size) {
  const std::uint32_t each = slot_bytes_[size];
  Slab slab{verbs::RegisteredMemory::allocate(device_, std::size_t{each} * slab_slots),
            std::make_unique<SendSlot[]>(slab_slots)};
  if (!slab.memory) {
    ++counters_.slab_failures;
    return false;
  }
  for (std::uint32_t i = slab_slots; i-- > 0;) {
    SendSlot& slot = slab.slots[i];
    slot.frame = slab.memory.data() + std::size_t{each} * i;
    slot.capacity_bytes = each;
    slot.lkey = slab.memory.lkey();
    slot.pool = size;
    push_front(size, &slot);
  }
  counters_.send_bytes += std::uint64_t{each} * slab_slots;
  slabs_.push_back(std::move(slab));
  return true;
}

std::size_t SlotPool::out() const {
  std::size_t out = slabs_.size() * slab_slots;
  for (const SendSlot* slot : free_) {
    for (; slot != nullptr; slot = slot->next) --out;
  }
  return out;
}

}  // namespace weir
