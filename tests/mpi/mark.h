// Marks in the stream of instructions, for tests/bench/map: where an operation begins and ends, and
// of which kind it is. A mark is a no-op of seven bytes with a displacement that nothing else has;
// map's QEMU plugin (tests/bench/path_plugin.c) recognises it. Everywhere else it does nothing.
#pragma once

#include <cstdlib>
#include <fstream>

namespace mark {

enum Kind { end = 1, series = 2, send = 0x10, receive, put, get, fetch_add, compare_swap };

#if defined(__x86_64__)
// nopl 0x695765KK(%rax), KK the kind
template <Kind which>
[[gnu::always_inline]] inline void leave() {
  __asm__ volatile(".byte 0x0f, 0x1f, 0x80, %c0, 0x57, 0x65, 0x69" : : "i"(static_cast<int>(which)) : "memory");
}
#else
template <Kind which>
inline void leave() {}
#endif

// What lies between its beginning and its end.
template <Kind kind>
struct Operation {
  Operation() { leave<kind>(); }
  ~Operation() { leave<end>(); }
};

// The marks to come belong to this program. Where its libraries are goes into the file that
// WEIR_TEST_MAPS names.
inline void begin_series() {
  if (const char* const path = std::getenv("WEIR_TEST_MAPS")) {
    std::ofstream(path) << std::ifstream("/proc/self/maps").rdbuf();
  }
  leave<series>();
}

}  // namespace mark
