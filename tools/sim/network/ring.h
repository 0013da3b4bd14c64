// A queue in one piece of memory, which grows by doubling. Small while it is empty: there is one or
// more for each of thousands of nodes. Single-threaded.
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <utility>

namespace weir::sim::network {

template <typename T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::uint32_t size() const { return size_; }

  T& front() {
    assert(size_ > 0);
    return slots_[head_];
  }

  void push_back(const T& value) {
    if (size_ == capacity_) grow();
    slots_[(head_ + size_) & (capacity_ - 1)] = value;
    ++size_;
  }
  void pop_front() {
    assert(size_ > 0);
    head_ = (head_ + 1) & (capacity_ - 1);
    --size_;
  }

 private:
  void grow() {
    const std::uint32_t larger = capacity_ == 0 ? 4 : 2 * capacity_;
    auto slots = std::make_unique<T[]>(larger);
    for (std::uint32_t i = 0; i < size_; ++i) slots[i] = slots_[(head_ + i) & (capacity_ - 1)];
    slots_ = std::move(slots);
    head_ = 0;
    capacity_ = larger;
  }

  std::unique_ptr<T[]> slots_;
  std::uint32_t capacity_ = 0;
  std::uint32_t head_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace weir::sim::network
