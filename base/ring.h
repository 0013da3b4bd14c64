// A queue with a fixed capacity, in arrival order. No allocation after construction.
// Not thread-safe.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <memory>

namespace weir {

template <typename T>
class Ring {
 public:
  // Room for at least `capacity` elements (rounded up to a power of two).
  explicit Ring(std::size_t capacity)
      : mask_(std::bit_ceil(capacity == 0 ? 1 : capacity) - 1), slots_(new T[mask_ + 1]) {}

  std::size_t size() const { return tail_ - head_; }
  bool empty() const { return head_ == tail_; }
  bool full() const { return size() > mask_; }

  void push(const T& value) {
    assert(!full());
    slots_[tail_++ & mask_] = value;
  }

  // The oldest is 0.
  const T& operator[](std::size_t i) const {
    assert(i < size());
    return slots_[(head_ + i) & mask_];
  }
  T& front() {
    assert(!empty());
    return slots_[head_ & mask_];
  }

  T pop() {
    assert(!empty());
    return slots_[head_++ & mask_];
  }

 private:
  std::size_t mask_;
  std::unique_ptr<T[]> slots_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace weir
