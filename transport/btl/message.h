// A message as ob1 gives it to sendi, and how its bytes get into a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/btl/compat.h"

namespace weir::btl {

// Copies `size` bytes, from sizeof(Word) to twice as many.
template <typename Word>
inline void copy_two(std::byte* to, const void* from, std::size_t size) {
  Word first;
  Word last;
  std::memcpy(&first, from, sizeof(Word));
  std::memcpy(&last, static_cast<const std::byte*>(from) + size - sizeof(Word), sizeof(Word));
  std::memcpy(to, &first, sizeof(Word));
  std::memcpy(to + size - sizeof(Word), &last, sizeof(Word));
}

// Copies up to 16 bytes without a call of memcpy, which would cost more than the copy.
inline void copy_short(std::byte* to, const void* from, std::size_t size) {
  if (size > 16) {
    std::memcpy(to, from, size);
  } else if (size >= 8) {
    copy_two<std::uint64_t>(to, from, size);
  } else if (size >= 4) {
    copy_two<std::uint32_t>(to, from, size);
  } else {
    const auto* const bytes = static_cast<const std::byte*>(from);
    for (std::size_t i = 0; i < size; ++i) to[i] = bytes[i];
  }
}

// Copies `size` bytes of the message to `to`. False if the convertor gave fewer.
inline bool pack(opal_convertor_t* convertor, std::byte* to, std::size_t& size) {
  iovec vector{to, size};
  std::uint32_t count = 1;
  std::size_t packed = size;
  const bool good = opal_convertor_pack(convertor, &vector, &count, &packed) >= 0;
  size = packed;
  return good;
}

struct Message {
  opal_convertor_t* convertor;
  const void* header;
  std::size_t header_size;
  std::size_t payload_size;
  bool packs;            // the payload is in pieces, or has to be converted
  std::size_t position;  // in the convertor, where the payload begins if it `packs`

  std::uint32_t bytes() const { return static_cast<std::uint32_t>(header_size + payload_size); }
  // Where the payload is, unless it `packs`. Without payload the convertor is not initialised.
  const std::byte* payload() const {
    void* data = nullptr;
    if (payload_size > 0) opal_convertor_get_current_pointer(convertor, &data);
    return static_cast<const std::byte*>(data);
  }
  void write(std::byte* at) const {
    copy_short(at, header, header_size);
    if (packs) {
      std::size_t packed = payload_size;
      pack(convertor, at + header_size, packed);
    } else if (payload_size > 0) {
      copy_short(at + header_size, payload(), payload_size);
    }
  }
  // Makes it ready to be written once more.
  void rewind() const {
    std::size_t begin = position;
    if (packs) opal_convertor_set_position(convertor, &begin);
  }
};

}  // namespace weir::btl
