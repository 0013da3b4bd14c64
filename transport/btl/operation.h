// One-sided operations as Open MPI sees them: the handle of registered memory, and the callback for
// the end of an operation.
#pragma once

#include <array>
#include <atomic>
#include <mutex>

#include "rendezvous/transfer.h"
#include "transport/btl/compat.h"
#include "transport/btl/directory.h"
#include "transport/btl/endpoint.h"
#include "transport/btl/exported.h"
#include "transport/btl/flush.h"
#include "transport/btl/pool.h"
#include "transport/lane/send_slot.h"
#include "transport/rail/divisions.h"
#include "transport/verbs/registration_cache.h"

// The type is ours, its name is not. Open MPI hands its first `handle_bytes` to peers, and passes
// pointers to whole handles around in this process.
struct mca_btl_base_registration_handle_t {
  weir::btl::Exported exported;
  // The rest is only for this process.
  weir::verbs::Registration* registration = nullptr;
  std::array<weir::verbs::Registration*, weir::most_rails - 1> sides{};  // on further rails
  std::uint32_t listed = weir::btl::Directory::nowhere;  // in the directory
  mca_btl_base_endpoint_t* reader = nullptr;             // of a message in place of a train
  mca_btl_base_registration_handle_t* next = nullptr;
};

namespace weir::btl {

using Handle = mca_btl_base_registration_handle_t;

inline constexpr std::size_t handle_bytes = sizeof(Handle::exported);

struct Lookup;

// A get, put or atomic under way. Aligned for the token below.
struct alignas(128) Operation {
  mca_btl_base_rdma_completion_fn_t callback = nullptr;
  void* context = nullptr;
  void* data = nullptr;
  Endpoint* endpoint = nullptr;
  void* local_address = nullptr;
  Handle* local_handle = nullptr;
  SendSlot* scratch = nullptr;  // where an unwanted result of an atomic lands
  Handle* target = nullptr;     // for memory registered for this operation only
  Lookup* lookup = nullptr;     // set if this reads a directory, into `scratch`, for another one
  Divisions::Part* part = nullptr;  // set if this is a part of another operation
  Export memory{};              // the memory at the target, as the handle described it
  Operation* next = nullptr;
  // For the same memory on the target's further rails (SideExport).
  std::array<std::uint32_t, most_rails - 1> side_rkeys{};
  std::uint8_t side_traits = 0;
  std::uint8_t epoch = FlushEpochs::none;
  std::uint8_t generation = 0;  // how often the record was used; see Operations
};
static_assert(sizeof(Operation) == 128);

// The refused operations, so that a caller that cannot go on after an error is noticed.
//
// Thread rule: any thread.
class Refusals {
 public:
  struct Verdict {
    bool is_new;       // the last one was another
    bool is_hopeless;  // osc/rdma repeats it for ever, or would hang: it was a compare-and-swap
  };
  // `others`: how many operations were started so far.
  Verdict judge(const TransferRequest& refused, std::uint64_t others) {
    constexpr int for_ever = 1000;
    std::lock_guard guard(lock_);
    const bool again = refused.peer == last_.peer &&
                       refused.remote_address == last_.remote_address &&
                       refused.length_bytes == last_.length_bytes;
    in_a_row_ = again && others == others_ ? in_a_row_ + 1 : 1;
    const bool was_swap = again && last_.opcode == Opcode::compare_swap;
    last_ = refused;
    others_ = others;
    return {!again, in_a_row_ == for_ever || (was_swap && refused.opcode == Opcode::write)};
  }

 private:
  std::mutex lock_;
  TransferRequest last_;
  std::uint64_t others_ = 0;
  int in_a_row_ = 0;
};

// An operation that waits for its key.
struct Lookup {
  Operation operation;
  TransferRequest request;
  std::uint32_t entries = 0;  // of the directory that is read for it
  Lookup* next = nullptr;
};

// The operations under way. If an end were reported twice, its owner would release the operation's
// memory twice. So each operation has a token that is good once: its record's address, with the
// record's generation in the low bits, which are always zero in the address.
//
// Thread rule: any thread, like Pool.
class Operations {
 public:
  // A record of the operation, whose generation does not matter. May throw std::bad_alloc.
  [[gnu::always_inline]] Operation& take(const Operation& operation) {
    Operation* const record = pool_.get();
    const std::uint8_t generation = record->generation;
    *record = operation;
    record->generation = generation;
    return *record;
  }
  static std::uint64_t token(const Operation& record) {
    return reinterpret_cast<std::uint64_t>(&record) | record.generation;
  }
  std::uint64_t begin(const Operation& operation) { return token(take(operation)); }

  // The record of the operation, which is over now: `release` it. nullptr if it was over already;
  // that is counted.
  Operation* end(std::uint64_t token) {
    auto* const record = reinterpret_cast<Operation*>(token & ~generations);
    if (record->generation != (token & generations)) [[unlikely]] {
      repeated_.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    record->generation = (record->generation + 1) & generations;
    return record;
  }
  void release(Operation& record) { pool_.put(&record); }

  // The operation with this token; nullptr if it is over.
  const Operation* find(std::uint64_t token) const {
    const auto* const record = reinterpret_cast<const Operation*>(token & ~generations);
    if (record == nullptr || record->generation != (token & generations)) return nullptr;
    return record;
  }

  std::size_t out() { return pool_.out(); }
  std::uint64_t repeated() const { return repeated_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t generations = alignof(Operation) - 1;

  Pool<Operation> pool_;
  std::atomic<std::uint64_t> repeated_{0};
};

}  // namespace weir::btl
