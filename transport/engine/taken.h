// News that a thread has taken from where they arrived, and hands up one by one.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace weir {

template <typename T>
class Taken {
 public:
  void reserve(std::size_t count) { items_.reserve(count); }

  // Takes all that arrived; there must be none left. The memory of both goes on being used.
  void take(std::vector<T>& arrived) {
    items_.clear();
    items_.swap(arrived);
    next_ = items_.data();
    end_ = next_ + items_.size();
  }

  bool empty() const { return next_ == end_; }
  // The oldest; there must be one. Stays where it is until the next `take`.
  T& pop() { return *next_++; }

  template <typename Is>
  bool any_of(Is&& is) const {
    return std::any_of(static_cast<const T*>(next_), static_cast<const T*>(end_), is);
  }

 private:
  std::vector<T> items_;
  T* next_ = nullptr;
  T* end_ = nullptr;
};

}  // namespace weir
