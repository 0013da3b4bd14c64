// A first-in-first-out list threaded through its elements (`T* next`). Never allocates; an element
// is in at most one list. Not thread-safe.
#pragma once

#include <cstddef>

namespace weir {

template <typename T>
class Fifo {
 public:
  bool empty() const { return head_ == nullptr; }
  std::size_t size() const { return size_; }
  T* front() const { return head_; }
  T* back() const { return tail_; }

  void push(T* item) {
    item->next = nullptr;
    if (tail_ != nullptr) {
      tail_->next = item;
    } else {
      head_ = item;
    }
    tail_ = item;
    ++size_;
  }

  // Puts `item` before all others.
  void push_front(T* item) {
    item->next = head_;
    head_ = item;
    if (tail_ == nullptr) tail_ = item;
    ++size_;
  }

  // The oldest element, or nullptr.
  T* pop() {
    T* item = head_;
    if (item == nullptr) return nullptr;
    head_ = item->next;
    if (head_ == nullptr) tail_ = nullptr;
    item->next = nullptr;
    --size_;
    return item;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weir
