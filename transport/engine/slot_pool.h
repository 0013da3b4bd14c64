// Registered memory for outgoing frames, in two sizes, in slabs that are added on demand.
//
// Thread rule: the engine's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/base/counters.h"
#include "transport/lane/send_slot.h"
#include "transport/verbs/memory.h"

namespace weir {

class SlotPool {
 public:
  enum Size : std::uint8_t { small, full };

  // `full_bytes`: memory of a full slot, frame headers included. `counters` counts the registered
  // memory, and failures to get it.
  SlotPool(const verbs::Device& device, std::uint32_t full_bytes, Counters& counters)
      : device_(device), slot_bytes_{small_bytes, full_bytes}, counters_(counters) {}

  // Registered memory for the first slots of both sizes.
  static std::size_t least_bytes(std::uint32_t full_bytes) {
    return std::size_t{slab_slots} * (small_bytes + full_bytes);
  }

  // A slot whose payload holds `payload_bytes`, of the small size if that fits; nullptr if memory
  // cannot be allocated or registered.
  SendSlot* get(std::uint32_t payload_bytes) {
    return take(payload_bytes + wire::first_payload_offset <= small_bytes ? small : full);
  }
  SendSlot* get_full() { return take(full); }

  void put(SendSlot* slot) { push_front(slot->pool, slot); }

  // Slots that were taken and not put back. Walks the lists.
  std::size_t out() const;

  static constexpr std::uint32_t small_bytes = 512;

 private:
  static constexpr std::uint32_t slab_slots = 32;

  struct Slab {
    verbs::RegisteredMemory memory;
    std::unique_ptr<SendSlot[]> slots;
  };

  SendSlot* take(Size size) {
    SendSlot* slot = free_[size];
    if (slot == nullptr) {
      if (!grow(size)) return nullptr;
      slot = free_[size];
    }
    free_[size] = slot->next;
    slot->next = nullptr;
    slot->notify = false;
    return slot;
  }

  // Last in, first out: the next frame is written where the cache is warm.
  void push_front(std::uint8_t size, SendSlot* slot) {
    slot->next = free_[size];
    free_[size] = slot;
  }

  bool grow(Size size);

  const verbs::Device& device_;
  std::array<std::uint32_t, 2> slot_bytes_;
  std::array<SendSlot*, 2> free_{};
  std::vector<Slab> slabs_;
  Counters& counters_;
};

}  // namespace weir
