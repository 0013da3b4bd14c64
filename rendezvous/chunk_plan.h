// How a transfer is cut into chunks, each one RDMA work request. [RDRP §3.2]
//
//   * Every boundary inside a transfer lies on an aligned address of the memory that is written:
//     local for a get, remote for a put. So no two chunks write the same cache line or page, and
//     each line is written once. (If local and remote addresses are congruent, both are aligned.)
//     The first chunk becomes shorter by this, by less than a quarter.
//   * A tail of less than a quarter of a chunk is merged into the chunk before, because a read of a
//     few bytes uses up one of max_rd_atomic like any other. It is not merged if the result would
//     be more than the device sends in one message.
//   * No bytes, no chunk.
//
// Each may be of a smaller plan. Chunks are computed one after the other from the offset alone:
// nothing is stored per chunk. Pure values.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace weir {

class ChunkPlan {
 public:
  struct Config {
    std::uint32_t chunk_bytes = 128 * 1024;       // [RDRP §4.2]
    std::uint32_t alignment_bytes = 4096;         // a power of two; the page
    std::uint32_t max_message_bytes = 8u << 20u;  // the device's max_msg_sz (rxe: 8 MiB)
  };

  explicit ChunkPlan(const Config& config)
      : chunk_(std::clamp(config.chunk_bytes, 1u, std::max(config.max_message_bytes, 1u))),
        // An alignment that would cost more than a quarter of a chunk is reduced.
        alignment_(std::min(std::bit_floor(std::max(config.alignment_bytes, 1u)),
                            std::bit_floor(std::max(chunk_ / 4, 1u)))),
        largest_(std::min<std::uint64_t>(chunk_ + std::uint64_t{std::max(chunk_ / 4, 1u)} - 1,
                                         std::max(config.max_message_bytes, 1u))) {}

  // The length of the chunk at `offset` of a transfer of `length` bytes; 0 at its end. `written` is
  // the address to which the first byte of the transfer is written.
  std::uint32_t bytes_at(std::uint64_t offset, std::uint64_t length, std::uint64_t written) const {
    return bytes_at(offset, length, written, chunk_);
  }
  // The same, but the chunk is of a plan of `chunk` bytes, no more than this one's.
  std::uint32_t bytes_at(std::uint64_t offset, std::uint64_t length, std::uint64_t written,
                         std::uint32_t chunk) const {
    const std::uint64_t rest = length - offset;
    const std::uint32_t quarter = std::max(chunk / 4, 1u);
    if (rest <= std::min<std::uint64_t>(largest_, std::uint64_t{chunk} + quarter - 1)) {
      return static_cast<std::uint32_t>(rest);
    }
    // How far the boundary would miss the alignment; less than a quarter of the chunk.
    const std::uint32_t alignment = std::min(alignment_, std::bit_floor(quarter));
    const std::uint64_t beyond = (written + offset + chunk) & (alignment - 1);
    return static_cast<std::uint32_t>(chunk - beyond);
  }

  std::uint32_t chunk_bytes() const { return chunk_; }
  std::uint32_t alignment_bytes() const { return alignment_; }
  // The size of the largest possible chunk.
  std::uint32_t largest_bytes() const { return static_cast<std::uint32_t>(largest_); }

 private:
  std::uint32_t chunk_;
  std::uint32_t alignment_;
  std::uint64_t largest_;
};

}  // namespace weir
