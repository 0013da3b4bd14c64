// The buffers behind the shared receive queue. Every buffer is in exactly one state:
//
//   free --post--> posted --arrive--> held --release--> free
//
// and posted + held + free == total, always. Buffers come in slabs of registered memory that the
// engine provides. Only `add_slab` allocates.
//
// Pure; the caller serialises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/base/ids.h"
#include "transport/base/work.h"

namespace weir {

class ReceivePool {
 public:
  explicit ReceivePool(std::uint32_t buffer_bytes) : buffer_bytes_(buffer_bytes) {}

  // `count` more buffers of `buffer_bytes` each, in one registered piece of memory at `address`.
  void add_slab(std::uint64_t address, std::uint32_t lkey, std::uint32_t count);

  // Moves up to `count` buffers from free to posted and appends a post for each to `posts`.
  // Returns how many.
  std::uint32_t post(std::uint32_t count, std::vector<ReceivePost>& posts);

  // A receive completed into `id`. False, and nothing changes, if it was not posted.
  bool arrive(BufferId id);

  // The upper layer is done with `id`. False, and nothing changes, if it was not held.
  bool release(BufferId id);

  // First byte of a buffer. `id` must be one of the pool.
  std::byte* data(BufferId id) const;

  std::uint32_t buffer_bytes() const { return buffer_bytes_; }
  std::uint32_t total() const { return static_cast<std::uint32_t>(buffers_.size()); }
  std::uint32_t posted() const { return posted_; }
  std::uint32_t held() const { return held_; }
  std::uint32_t free() const { return static_cast<std::uint32_t>(free_.size()); }

  // Recounts every buffer; for tests and debug checks.
  bool conserved() const;

 private:
  enum class State : std::uint8_t { free, posted, held };

  struct Buffer {
    std::uint64_t address;
    std::uint32_t lkey;
    State state;
  };

  std::uint32_t buffer_bytes_;
  std::uint32_t posted_ = 0;
  std::uint32_t held_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<BufferId> free_;  // last in, first out: the warmest buffer is posted next
};

}  // namespace weir
