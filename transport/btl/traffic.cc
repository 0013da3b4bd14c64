// Sending, as ob1 asks for it. Nothing promised to ob1 is refused: it would hang.
//
//   sendi                 header and data go straight into a frame, or several (trains.h); may be
//                         turned back
//   alloc, send           control messages, eager copies: complete when send returns (1); a
//                         descriptor that stays the caller's (compat.h): when it is delivered
//   prepare_src, send     fragments of large messages: complete when the frame is delivered (0);
//                         that bounds their number

#include <algorithm>
#include <exception>

#include "transport/btl/message.h"
#include "transport/btl/module.h"
#include "transport/btl/report.h"

namespace weir::btl {
namespace {

// A descriptor with `size` bytes of memory, of a slot unless it is to `wait` for one. nullptr only
// if there is no memory at all.
Descriptor* get_descriptor(Module& module, std::size_t size, std::uint32_t flags,
                           bool wait = false) {
  Descriptor* const descriptor = module.descriptors.get();
  const bool is_short = size <= module.engine->max_payload_bytes() && !wait;
  SendSlot* const slot =
      is_short ? module.engine->acquire(static_cast<std::uint32_t>(size)) : nullptr;
  if (slot != nullptr) {
    descriptor->segment.seg_addr.pval = slot->payload();
  } else {
    descriptor->heap = std::make_unique_for_overwrite<std::byte[]>(size);
    descriptor->segment.seg_addr.pval = descriptor->heap.get();
  }
  descriptor->slot = slot;
  descriptor->segment.seg_len = size;
  descriptor->des_flags = flags;
  descriptor->des_cbfunc = nullptr;
  descriptor->des_cbdata = nullptr;
  descriptor->des_context = nullptr;
  descriptor->waits = false;
  return descriptor;
}

// Takes `message` by value, so that the caller's can stay in registers when this is not called.
[[gnu::noinline]] Status send_over_rails(Module& module, Endpoint& endpoint, Message message,
                                         mca_btl_base_tag_t tag) {
  return module.rails->frames.send(endpoint, tag, [&](Engine& engine, PeerId peer) {
    message.rewind();
    return engine.send_filled(peer, message.bytes(), tag,
                              [&](std::byte* at) { message.write(at); });
  });
}

void end_original(mca_btl_base_module_t* btl, Endpoint* endpoint, mca_btl_base_descriptor_t* copy,
                  int status) {
  auto* const original = static_cast<mca_btl_base_descriptor_t*>(copy->des_cbdata);
  if (original->des_cbfunc != nullptr) original->des_cbfunc(btl, endpoint, original, status);
}

// A copy to send instead of a descriptor whose memory the caller goes on using. The delivery of the
// copy completes the original; to complete it earlier would call back from within the send.
[[maybe_unused]] Descriptor& copy_of(Module& module, Descriptor& original) {
  const std::size_t size = original.segment.seg_len;
  Descriptor& copy = *get_descriptor(module, size, MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
  std::memcpy(copy.payload(), original.payload(), size);
  copy.des_cbfunc = end_original;
  copy.des_cbdata = &original;
  copy.waits = true;
  return copy;
}

// If there is no memory for its cars the job ends, because ob1 was promised that it is sent.
int send_long(Module& module, Endpoint& endpoint, Descriptor& descriptor, mca_btl_base_tag_t tag) {
  try {
    return module.trains.send_whole(endpoint, descriptor, tag);
  } catch (const std::exception& problem) {
    give_up(module, problem);
    return OPAL_ERR_OUT_OF_RESOURCE;
  }
}

std::int64_t memory_of(const Descriptor& descriptor) {
  return descriptor.slot != nullptr ? descriptor.slot->capacity_bytes
                                    : static_cast<std::int64_t>(descriptor.segment.seg_len);
}

}  // namespace

mca_btl_base_descriptor_t* alloc(mca_btl_base_module_t* btl, Endpoint*, std::uint8_t,
                                 std::size_t size, std::uint32_t flags) noexcept {
  Module& module = of(btl);
  if (size > module.trains.most_bytes()) return nullptr;
  try {
    return get_descriptor(module, size, flags);
  } catch (const std::exception&) {
    return nullptr;
  }
}

int free_descriptor(mca_btl_base_module_t* btl, mca_btl_base_descriptor_t* descriptor) noexcept {
  of(btl).release(of(descriptor));
  return OPAL_SUCCESS;
}

mca_btl_base_descriptor_t* prepare_src(mca_btl_base_module_t* btl, Endpoint*,
                                       opal_convertor_t* convertor, std::uint8_t,
                                       std::size_t reserve, std::size_t* size,
                                       std::uint32_t flags) noexcept {
  Module& module = of(btl);
  const std::size_t most = module.engine->max_payload_bytes();
  if (reserve > most) return nullptr;
  const std::size_t wanted = std::min(*size, most - reserve);

  // The one refusal that ob1 copes with: a callback is still to come, after which it tries again.
  const std::int64_t owed = module.owed_bytes.load(std::memory_order_relaxed);
  if (owed > 0 && owed + static_cast<std::int64_t>(wanted) > module.settings.send_memory_bytes) {
    return nullptr;
  }
  Descriptor* descriptor = nullptr;
  try {
    // Not past fragments that wait (ob1_fragment_tag).
    descriptor = get_descriptor(module, reserve + wanted, flags, module.waiting_sends.any());
  } catch (const std::exception&) {
    return nullptr;
  }
  std::size_t packed = wanted;
  if (wanted > 0 && !pack(convertor, descriptor->payload() + reserve, packed)) {
    module.release(*descriptor);
    return nullptr;
  }
  descriptor->segment.seg_len = reserve + packed;
  descriptor->waits = true;
  *size = packed;
  return descriptor;
}

int send(mca_btl_base_module_t* btl, Endpoint* endpoint, mca_btl_base_descriptor_t* base,
         mca_btl_base_tag_t tag) noexcept {
  Module& module = of(btl);
  Descriptor& descriptor = of(base);
  if constexpr (sends_descriptors_again) {
    if ((descriptor.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) == 0 && !descriptor.waits) {
      try {
        Descriptor& copy = copy_of(module, descriptor);
        const int rc = send(btl, endpoint, &copy, tag);
        if (rc < 0) module.release(copy);
        return rc;
      } catch (const std::exception&) {
        return OPAL_ERR_OUT_OF_RESOURCE;
      }
    }
  }
  const auto length = static_cast<std::uint32_t>(descriptor.segment.seg_len);
  const bool waits = descriptor.waits;
  descriptor.endpoint = endpoint;
  if (module.trains.is_answer(*endpoint, descriptor, tag)) [[unlikely]]
    return module.complete_at_once(descriptor, OPAL_SUCCESS);
  if (length > module.engine->max_payload_bytes()) [[unlikely]]
    return send_long(module, *endpoint, descriptor, tag);

  const std::int64_t memory = memory_of(descriptor);
  if (waits) module.owed_bytes.fetch_add(memory, std::memory_order_relaxed);

  SendSlot* const slot = descriptor.slot;
  if (slot == nullptr) {
    if (descriptor.heap == nullptr) return OPAL_ERR_BAD_PARAM;  // already sent
    try {
      module.waiting_sends.push(
          {endpoint, tag, length, std::move(descriptor.heap), waits ? &descriptor : nullptr});
    } catch (const std::exception&) {
      if (waits) module.owed_bytes.fetch_sub(memory, std::memory_order_relaxed);
      return OPAL_ERR_OUT_OF_RESOURCE;
    }
    return waits ? 0 : module.complete_at_once(descriptor, OPAL_SUCCESS);
  }

  slot->notify = waits;
  slot->wakes = needs_answer(descriptor.des_flags, tag);
  slot->user = &descriptor;
  // From here on a waiting descriptor may be completed, and gone, at any moment.
  Status status = module.spreads(tag) ? Status::elsewhere
                                      : module.engine->send(endpoint->id, slot, length, tag, true);
  if (status == Status::elsewhere) [[unlikely]]
    status = module.rails->frames.send_copy(*endpoint, slot, length, tag);
  if (status == Status::ok) {
    if (waits) return 0;
    descriptor.slot = nullptr;
    return module.complete_at_once(descriptor, OPAL_SUCCESS);
  }
  if (waits) module.owed_bytes.fetch_sub(memory, std::memory_order_relaxed);
  if (status == Status::peer_failed) {
    // Frames left for that peer are dropped, and nobody waits for them.
    progress(module);  // otherwise a program that only sends would never hear of the failure
    return module.complete_at_once(descriptor, undelivered);
  }
  return OPAL_ERR_BAD_PARAM;
}

[[gnu::flatten, gnu::hot]] int sendi(mca_btl_base_module_t* btl, Endpoint* endpoint,
                                     opal_convertor_t* convertor, void* header,
                                     std::size_t header_size, std::size_t payload_size,
                                     std::uint8_t, std::uint32_t flags, mca_btl_base_tag_t tag,
                                     mca_btl_base_descriptor_t** descriptor) noexcept {
  Module& module = of(btl);
  // No descriptor on failure: ob1 then keeps the message and asks again, which bounds the memory
  // that small messages to a slow peer can take.
  if (descriptor != nullptr) *descriptor = nullptr;
  if (header_size + payload_size > module.trains.most_bytes()) return OPAL_ERR_NOT_AVAILABLE;
  // Without payload the convertor is not even initialised.
  const bool packs = payload_size > 0 && opal_convertor_need_buffers(convertor) != 0;
  if (packs && is_on_gpu(*convertor)) [[unlikely]] {
    // Here it would be packed with the engine's lock. ob1 packs into a descriptor without it.
    if (descriptor != nullptr)
      *descriptor = alloc(btl, endpoint, MCA_BTL_NO_ORDER, header_size + payload_size, flags);
    return OPAL_ERR_NOT_AVAILABLE;
  }
  const Message message{convertor,    header, header_size,
                        payload_size, packs,  packs ? convertor->bConverted : 0};
  if (message.bytes() > module.engine->max_payload_bytes()) [[unlikely]]
    return module.trains.send(*endpoint, message, tag) ? OPAL_SUCCESS : OPAL_ERR_RESOURCE_BUSY;
  Status status = module.spreads(tag)
                      ? Status::elsewhere
                      : module.engine->send_filled(endpoint->id, message.bytes(), tag,
                                                   [&](std::byte* at) { message.write(at); });
  if (status == Status::elsewhere) [[unlikely]]
    status = send_over_rails(module, *endpoint, message, tag);
  if (status == Status::peer_failed) progress(module);  // as in send
  if (status == Status::ok || status == Status::peer_failed) return OPAL_SUCCESS;
  message.rewind();
  return OPAL_ERR_RESOURCE_BUSY;
}

// ---- completion ----

int Module::complete_at_once(Descriptor& descriptor, int status) {
  const bool ours = (descriptor.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) != 0;
  if ((descriptor.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) != 0 &&
      descriptor.des_cbfunc != nullptr) {
    descriptor.des_cbfunc(this, descriptor.endpoint, &descriptor, status);
  }
  if (ours) release(descriptor);
  return 1;
}

void Module::complete(Descriptor& descriptor, int status) {
  const bool ours = (descriptor.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) != 0;
  if (descriptor.des_cbfunc != nullptr &&
      !deaths.took_back(descriptor.endpoint, descriptor.des_context)) {
    descriptor.des_cbfunc(this, descriptor.endpoint, &descriptor, status);
  }
  if (ours) release(descriptor);
}

void Module::release(Descriptor& descriptor) {
  if (descriptor.slot != nullptr) engine->discard(descriptor.slot);
  descriptor.slot = nullptr;
  descriptor.heap.reset();
  descriptors.put(&descriptor);
}

}  // namespace weir::btl
