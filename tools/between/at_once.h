// Many things that wait, some of them at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace weir::tools::between {

// Calls do_one(0) to do_one(count - 1), each once, in up to `most` threads; returns after the last.
template <typename DoOne>
void at_once(std::size_t most, std::size_t count, DoOne do_one) {
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads(std::min(most, count));
  for (std::jthread& thread : threads) {
    thread = std::jthread([&] {
      for (std::size_t i = next++; i < count; i = next++) do_one(i);
    });
  }
}

}  // namespace weir::tools::between
