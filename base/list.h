// A doubly linked list threaded through its elements (`Link<T>` members): removing any element
// takes constant time. Never allocates; a link is in at most one list. Not thread-safe.
#pragma once

#include <cassert>
#include <cstddef>

namespace weir {

template <typename T>
struct Link {
  T* prev = nullptr;
  T* next = nullptr;
  bool linked = false;
};

template <typename T, Link<T> T::*link>
class List {
 public:
  bool empty() const { return head_ == nullptr; }
  std::size_t size() const { return size_; }
  T* front() const { return head_; }
  T* back() const { return tail_; }

  // The element after or before `item`, or nullptr.
  static T* next(const T* item) { return (item->*link).next; }
  static T* prev(const T* item) { return (item->*link).prev; }

  void push(T* item) {
    Link<T>& l = item->*link;
    assert(!l.linked);
    l = {tail_, nullptr, true};
    (tail_ != nullptr ? (tail_->*link).next : head_) = item;
    tail_ = item;
    ++size_;
  }

  void push_front(T* item) {
    Link<T>& l = item->*link;
    assert(!l.linked);
    l = {nullptr, head_, true};
    (head_ != nullptr ? (head_->*link).prev : tail_) = item;
    head_ = item;
    ++size_;
  }

  // `item` must be in this list.
  void remove(T* item) {
    Link<T>& l = item->*link;
    assert(l.linked);
    (l.prev != nullptr ? (l.prev->*link).next : head_) = l.next;
    (l.next != nullptr ? (l.next->*link).prev : tail_) = l.prev;
    l = {};
    --size_;
  }

  // The oldest element, or nullptr.
  T* pop() {
    T* item = head_;
    if (item != nullptr) remove(item);
    return item;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weir
