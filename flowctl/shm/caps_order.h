// Other caps that a process is to keep from now on (`weir set`). The order is in the process's own
// board, and its user or root writes it by one system call. The process looks at it now and then,
// and checks it as it checks a file.
//
// Half of an order, or one for an earlier owner of the slot, has no effect.
//
// A value.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

#include "base/caps.h"
#include "base/fnv.h"

namespace weir {

struct CapsOrder {
  std::uint64_t lease = 0;   // of the process that it is for
  std::uint64_t number = 0;  // tells it from another order for the same caps
  Caps caps{};
  std::uint64_t mark = 0;  // of all before; 0: there is no order

  using Words = std::array<std::uint64_t, 3 + std::tuple_size_v<Caps>>;
  Words words() const { return std::bit_cast<Words>(*this); }
  bool is_whole() const { return mark != 0 && mark == right_mark(); }
  void seal() { mark = right_mark(); }

 private:
  // Never 0.
  std::uint64_t right_mark() const {
    const Words all = words();
    return fnv(std::span<const std::uint64_t>(all).first(all.size() - 1)) | 1;
  }
};
static_assert(sizeof(CapsOrder) == sizeof(CapsOrder::Words));

}  // namespace weir
