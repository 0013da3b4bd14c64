// What ob1 fills in and hands over for sending: Open MPI's descriptor, and the slot of registered
// memory that its one segment lies in.
//
// Thread rule: the pool has its own lock, taken only when Open MPI runs with threads. A descriptor
// belongs to whoever got it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "transport/btl/compat.h"
#include "transport/btl/endpoint.h"
#include "transport/lane/send_slot.h"

namespace weir::btl {

struct Descriptor : mca_btl_base_descriptor_t {
  mca_btl_base_segment_t segment;
  SendSlot* slot;                     // the memory of `segment`, until the engine takes it
  Endpoint* endpoint;                 // once sent
  Descriptor* next;                   // in the pool
  bool waits;                         // the completion callback comes when the slot is retired
  std::unique_ptr<std::byte[]> heap;  // the memory of `segment` when there is no slot

  std::byte* payload() const { return static_cast<std::byte*>(segment.seg_addr.pval); }
};

inline Descriptor& of(mca_btl_base_descriptor_t* descriptor) {
  return *static_cast<Descriptor*>(descriptor);
}

class DescriptorPool {
 public:
  Descriptor* get() {
    const auto guard = lock();
    if (free_ == nullptr) grow();
    Descriptor* const descriptor = free_;
    free_ = descriptor->next;
    return descriptor;
  }

  void put(Descriptor* descriptor) {
    const auto guard = lock();
    descriptor->next = free_;
    free_ = descriptor;
  }

 private:
  static constexpr std::size_t chunk = 64;

  std::unique_lock<std::mutex> lock() {
    return opal_using_threads() ? std::unique_lock(lock_) : std::unique_lock<std::mutex>();
  }

  // Constructed once; what changes from use to use is set by `get`'s caller.
  void grow() {
    chunks_.push_back(std::make_unique<Descriptor[]>(chunk));
    for (std::size_t i = 0; i < chunk; ++i) {
      Descriptor& descriptor = chunks_.back()[i];
      OBJ_CONSTRUCT(static_cast<mca_btl_base_descriptor_t*>(&descriptor),
                    mca_btl_base_descriptor_t);
      descriptor.des_segments = &descriptor.segment;
      descriptor.des_segment_count = 1;
      descriptor.order = MCA_BTL_NO_ORDER;
      descriptor.next = free_;
      free_ = &descriptor;
    }
  }

  std::mutex lock_;
  Descriptor* free_ = nullptr;
  std::vector<std::unique_ptr<Descriptor[]>> chunks_;
};

}  // namespace weir::btl
