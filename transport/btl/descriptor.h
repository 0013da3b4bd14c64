// A message that ob1 fills in and sends: Open MPI's descriptor, and the slot of registered memory
// that holds its one segment.
//
// Thread rule: a descriptor belongs to the thread that got it from the pool.
#pragma once

#include <memory>

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

  // Runs once per record. Each user sets the fields that change with every use.
  Descriptor() {
    OBJ_CONSTRUCT(static_cast<mca_btl_base_descriptor_t*>(this), mca_btl_base_descriptor_t);
    des_segments = &segment;
    des_segment_count = 1;
    order = MCA_BTL_NO_ORDER;
  }

  std::byte* payload() const { return static_cast<std::byte*>(segment.seg_addr.pval); }
};

inline Descriptor& of(mca_btl_base_descriptor_t* descriptor) {
  return *static_cast<Descriptor*>(descriptor);
}

}  // namespace weir::btl
