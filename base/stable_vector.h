// A growing array whose elements never move. An access costs one load more than in a vector; only
// `emplace_back` allocates. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace weir {

template <typename T>
class StableVector {
 public:
  template <typename... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    elements_.push_back(std::make_unique<T>(std::forward<Arguments>(arguments)...));
    return *elements_.back();
  }

  T& operator[](std::uint32_t i) { return *elements_[i]; }
  const T& operator[](std::uint32_t i) const { return *elements_[i]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(elements_.size()); }

 private:
  std::vector<std::unique_ptr<T>> elements_;
};

}  // namespace weir
