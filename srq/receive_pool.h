// The buffers behind the shared receive queue. Every buffer is in exactly one state:
//
//   free --post--> posted --arrive--> held --release--> free, or withdrawn
//
// and posted + held + free + withdrawn == total, always. Buffers come in slabs of registered memory
// that the engine provides. Only `add_slab` allocates.
//
// Memory goes back a slab at a time, the youngest first. Posted buffers cannot be taken back from
// the adapter, so a slab retires: its buffers are withdrawn as messages use them up, and once all
// are withdrawn, the slab is dropped.
//
// Pure; the caller serialises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/work.h"

namespace weir {

class ReceivePool {
 public:
  explicit ReceivePool(std::uint32_t buffer_bytes) : buffer_bytes_(buffer_bytes) {}

  // Adds `count` buffers of `buffer_bytes` each, in one registered piece of memory at `address`.
  void add_slab(std::uint64_t address, std::uint32_t lkey, std::uint32_t count);

  // Moves up to `count` buffers from free to posted and appends a post for each to `posts`. Returns
  // how many.
  std::uint32_t post(std::uint32_t count, std::vector<ReceivePost>& posts);

  // A receive completed into `id`. False, and nothing changes, if it was not posted.
  bool arrive(BufferId id);

  // The upper layer is done with `id`. The buffer is withdrawn if its slab retires and
  // `may_withdraw()`, else free. False, and nothing changes, if it was not held.
  template <typename MayWithdraw>
  bool release(BufferId id, MayWithdraw&& may_withdraw) {
    if (index(id) >= total_ || buffers_[index(id)].state != State::held) return false;
    --held_;
    if (buffers_[index(id)].retiring && may_withdraw()) [[unlikely]] {
      withdraw(id);
    } else {
      buffers_[index(id)].state = State::free;
      free_.push_back(id);
    }
    return true;
  }
  bool release(BufferId id) {
    return release(id, [] { return true; });
  }

  // Retires the youngest slabs while at least `keep` buffers stay active, and no more than are
  // beyond `most`. True if any did.
  bool retire(std::uint32_t keep, std::uint32_t most = 0);

  // Takes slabs back from retirement until `want` buffers are active, as long as no more than
  // `most` are. Their withdrawn buffers become free again.
  void restore(std::uint32_t want, std::uint32_t most = UINT32_MAX);

  // Forgets the youngest slab if all of its buffers are withdrawn: its memory may go. Returns how
  // many buffers it had, 0 if there is no such slab.
  std::uint32_t drop_slab();
  bool can_drop() const {
    return !slabs_.empty() && slabs_.back().retiring &&
           slabs_.back().withdrawn == slabs_.back().count;
  }

  // First byte of a buffer. `id` must be one of the pool.
  std::byte* data(BufferId id) const;

  std::uint32_t buffer_bytes() const { return buffer_bytes_; }
  std::uint32_t total() const { return total_; }
  std::uint32_t posted() const { return posted_; }
  std::uint32_t held() const { return held_; }
  std::uint32_t free() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t withdrawn() const { return withdrawn_; }
  // Buffers in use or ready for use.
  std::uint32_t backed() const { return total() - withdrawn_; }
  // Buffers in slabs that do not retire.
  std::uint32_t active() const { return active_; }
  bool retiring() const { return active_ < total(); }

  // The most buffers held or free, not posted, at an arrival since `reset_peak_used`: how much of
  // the window the traffic took.
  std::uint32_t peak_used() const { return peak_used_; }
  void reset_peak_used() { peak_used_ = 0; }

  // Recounts every buffer; for tests and debug checks.
  bool conserved() const;

 private:
  enum class State : std::uint8_t { free, posted, held, withdrawn };

  struct Buffer {
    std::uint64_t address;
    std::uint32_t lkey;
    State state;
    bool retiring;  // its slab retires; copied here for the eager path
  };

  struct Slab {
    std::uint32_t first;
    std::uint32_t count;
    std::uint32_t withdrawn = 0;
    bool retiring = false;
  };

  void withdraw(BufferId id);
  Slab& slab_of(BufferId id);
  void set_retiring(Slab& slab, bool retiring);

  std::uint32_t buffer_bytes_;
  std::uint32_t total_ = 0;
  std::uint32_t posted_ = 0;
  std::uint32_t held_ = 0;
  std::uint32_t withdrawn_ = 0;
  std::uint32_t active_ = 0;
  std::uint32_t peak_used_ = 0;
  std::vector<Slab> slabs_;  // by age; retiring slabs are at the end
  std::vector<Buffer> buffers_;
  std::vector<BufferId> free_;  // last in, first out: the warmest buffer is posted next
};

}  // namespace weir
