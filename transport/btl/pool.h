// Small records that come and go with every operation; the pool keeps their memory for reuse.
//
// Thread rule: the pool's own lock, taken only if Open MPI runs with threads.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/btl/compat.h"

namespace weir::btl {

// T has a `T* next` for the pool's use.
template <typename T>
class Pool {
 public:
  // The record still holds its earlier contents. May throw std::bad_alloc.
  [[gnu::hot]] T* get() {
    const auto guard = lock();
    if (free_ == nullptr) grow();
    T* const record = free_;
    free_ = record->next;
    return record;
  }

  void put(T* record) {
    const auto guard = lock();
    record->next = free_;
    free_ = record;
  }

  // Records that were taken and not put back; a huge number if a record was put back twice. Walks
  // the list.
  std::size_t out() {
    const auto guard = lock();
    const std::size_t all = chunks_.size() * chunk;
    std::size_t free = 0;
    for (const T* record = free_; record != nullptr && free <= all; record = record->next) ++free;
    return all - free;
  }

 private:
  static constexpr std::size_t chunk = 64;

  std::unique_lock<std::mutex> lock() {
    return opal_using_threads() ? std::unique_lock(lock_) : std::unique_lock<std::mutex>();
  }

  void grow() {
    chunks_.push_back(std::make_unique<std::array<T, chunk>>());
    for (T& record : *chunks_.back()) {
      record.next = free_;
      free_ = &record;
    }
  }

  std::mutex lock_;
  T* free_ = nullptr;
  std::vector<std::unique_ptr<std::array<T, chunk>>> chunks_;
};

}  // namespace weir::btl
