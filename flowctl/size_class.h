// Message sizes in the tables of this folder: powers of two, as [TOK] measured them. Class 0 is up
// to 8 bytes, class n up to 8 << n; the last one takes everything larger.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace weir {

inline constexpr unsigned size_classes = 24;  // up to 64 MiB and more

constexpr unsigned size_class(std::uint64_t bytes) {
  if (bytes <= 8) return 0;
  return std::min(static_cast<unsigned>(std::bit_width(bytes - 1)) - 3, size_classes - 1);
}

// The largest message of a class; not for the last class.
constexpr std::uint64_t size_class_bytes(unsigned size_class) {
  return std::uint64_t{8} << size_class;
}

}  // namespace weir
