// Registered memory for outgoing frames, in two sizes, in slabs that are added on demand and go
// when they have not been needed for a while.
//
// Frames for peers that do not keep up wait in slots. So their memory has a cap, over all peers.
// Frames that cannot be refused, or are sent at once, may exceed it.
//
// Thread rule: the engine's lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/counters.h"
#include "transport/lane/send_slot.h"
#include "transport/verbs/memory.h"

namespace weir {

class SlotPool {
 public:
  enum Size : std::uint8_t { small, full };

  // `full_bytes`: memory of a full slot, frame headers included. `most_bytes`: of all slots, except
  // those that may exceed it. `counters` counts the registered memory, and failures to get it.
  SlotPool(const verbs::Device& device, std::uint32_t full_bytes, std::uint64_t most_bytes,
           Counters& counters)
      : device_(device),
        slot_bytes_{small_bytes, full_bytes},
        most_bytes_(most_bytes),
        counters_(counters) {}

  // Registered memory for the first slots of both sizes.
  static std::size_t least_bytes(std::uint32_t full_bytes) {
    return std::size_t{slab_slots} * (small_bytes + full_bytes);
  }

  // The size that holds `payload_bytes`.
  static Size size_for(std::uint32_t payload_bytes) {
    return payload_bytes + wire::first_payload_offset <= small_bytes ? small : full;
  }

  // A slot; nullptr if memory cannot be allocated or registered.
  SendSlot* get(Size size) { return take(size, UINT64_MAX); }
  // The same, also nullptr if that would exceed the cap.
  SendSlot* get_within(Size size) { return take(size, most_bytes_); }

  void put(SendSlot* slot) {
    List& list = free_[slot->pool];
    push_front(list, slot);
    ++list.count;
  }

  // Call about once a second: gives back half of the memory that was not needed since the last
  // call, except one slab of each size.
  void shrink();

  // Slots that were taken and not put back.
  std::size_t out() const {
    return slabs_.size() * slab_slots - free_[small].count - free_[full].count;
  }

  static constexpr std::uint32_t small_bytes = 512;
  static constexpr std::uint32_t slab_slots = 32;

 private:
  // Each call gives back so many slabs at most, because the adapter takes its time for each.
  static constexpr std::size_t most_dropped = 32;

  struct Slab {
    verbs::RegisteredMemory memory;
    std::unique_ptr<SendSlot[]> slots;
    Size size;
    // While `drop` runs:
    std::uint32_t idle = 0;  // its slots in the free list
    bool goes = false;
  };
  struct List {
    SendSlot* first = nullptr;
    std::size_t count = 0;
    std::size_t least = 0;  // count, since the last call of `shrink`
  };

  SendSlot* take(Size size, std::uint64_t most_bytes) {
    List& list = free_[size];
    if (list.first == nullptr && !grow(size, most_bytes)) return nullptr;
    SendSlot* const slot = list.first;
    list.first = slot->next;
    list.least = std::min(list.least, --list.count);
    slot->next = nullptr;
    slot->notify = false;
    slot->wakes = false;
    slot->is_car = false;
    return slot;
  }

  // Last in, first out: the next frame is written where the cache is warm.
  static void push_front(List& list, SendSlot* slot) {
    slot->next = list.first;
    list.first = slot;
  }

  [[gnu::noinline]] bool grow(Size size, std::uint64_t most_bytes);
  void drop(Size size, std::size_t most);

  const verbs::Device& device_;
  std::array<std::uint32_t, 2> slot_bytes_;
  std::uint64_t most_bytes_;
  std::array<List, 2> free_{};
  std::vector<std::unique_ptr<Slab>> slabs_;
  Counters& counters_;
};

}  // namespace weir
