// How many chunks and bytes may be outstanding, on a port as a whole and per peer. The read budget
// is one of these, the write budget another. The invariant:
//
//   chunks <= c  and  a peer's chunks <= its limit  and  (bytes <= limit or chunks == 1)
//
// except after a limit fell: then nothing is taken until the excess has come back. One chunk may
// always be outstanding, however large, in addition to what is reserved for chains: a smaller
// budget slows down, but never stops.
//
// A peer's limit is its queue pair's max_rd_atomic. One more read would only wait in the send
// queue, and with it every eager frame behind it. [IBTA 9.7] Its bytes need no limit of their own:
// a number of chunks bounds the bytes.
//
// Differs: [RDRP §3.3] bounds the gets of one transfer; with n transfers a receiver then has n*c.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace weir {

class ChunkBudget {
 public:
  static constexpr std::uint32_t no_limit = UINT32_MAX;

  // One peer's part. Lives in the scheduler's record of the peer.
  struct Use {
    std::uint32_t limit = no_limit;  // chunks
    std::uint32_t chunks = 0;        // outstanding
    std::uint64_t bytes = 0;

    bool at_limit() const { return chunks >= limit; }
  };

  ChunkBudget(std::uint32_t chunks, std::uint64_t bytes) { set_limits(chunks, bytes); }

  // Chunks outstanding beyond a lower limit stay so until they are done.
  void set_limits(std::uint32_t chunks, std::uint64_t bytes) {
    chunk_limit_ = std::max(chunks, 1u);
    byte_limit_ = bytes;
  }

  // Whether the port has room for a chunk, apart from the limit of its peer.
  bool has_room(std::uint32_t bytes) const {
    return chunks_ == reserved_ || (chunks_ < chunk_limit_ && bytes_ + bytes <= byte_limit_);
  }

  // There must be room for the chunk.
  void take(Use& use, std::uint32_t bytes) {
    assert(has_room(bytes) && !use.at_limit());
    use.chunks += 1;
    use.bytes += bytes;
    chunks_ += 1;
    bytes_ += bytes;
    peak_chunks_ = std::max(peak_chunks_, chunks_);
    peak_bytes_ = std::max(peak_bytes_, bytes_);
  }

  void give_back(Use& use, std::uint32_t chunks, std::uint64_t bytes) {
    assert(use.chunks >= chunks && use.bytes >= bytes && chunks_ >= chunks && bytes_ >= bytes);
    use.chunks -= chunks;
    use.bytes -= bytes;
    chunks_ -= chunks;
    bytes_ -= bytes;
  }

  // Reserves what a chain may have under way. False, and nothing changes, if it does not fit.
  bool reserve(std::uint32_t chunks, std::uint64_t bytes) {
    const bool fits = chunks_ + chunks <= chunk_limit_ && bytes_ + bytes <= byte_limit_;
    if (chunks_ > 0 && !fits) return false;
    reserved_ += chunks;
    chunks_ += chunks;
    bytes_ += bytes;
    peak_chunks_ = std::max(peak_chunks_, chunks_);
    peak_bytes_ = std::max(peak_bytes_, bytes_);
    return true;
  }
  void end_reservation(std::uint32_t chunks, std::uint64_t bytes) {
    assert(reserved_ >= chunks && chunks_ >= chunks && bytes_ >= bytes);
    reserved_ -= chunks;
    chunks_ -= chunks;
    bytes_ -= bytes;
  }

  std::uint32_t chunks() const { return chunks_; }
  std::uint32_t reserved() const { return reserved_; }  // part of chunks()
  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t chunk_limit() const { return chunk_limit_; }
  std::uint64_t byte_limit() const { return byte_limit_; }
  std::uint32_t peak_chunks() const { return peak_chunks_; }
  std::uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  std::uint32_t chunk_limit_ = 1;
  std::uint64_t byte_limit_ = 0;
  std::uint32_t chunks_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t reserved_ = 0;  // of `chunks_`, for chains
  std::uint32_t peak_chunks_ = 0;
  std::uint64_t peak_bytes_ = 0;
};

}  // namespace weir
