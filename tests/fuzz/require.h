// What a fuzz target insists on. Stays in every build, and ends the process so that libFuzzer keeps
// the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#define REQUIRE(condition)                                                         \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (0)

namespace weir::fuzz {

// The input in memory of its exact size: the address sanitizer sees the first byte read past it.
class Exact {
 public:
  Exact(const std::uint8_t* data, std::size_t size)
      : size_(size), bytes_(new std::byte[size == 0 ? 1 : size]) {
    if (size > 0) std::memcpy(bytes_.get(), data, size);
  }
  const std::byte* data() const { return size_ == 0 ? bytes_.get() + 1 : bytes_.get(); }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace weir::fuzz
