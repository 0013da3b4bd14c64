#include "tools/perf/memory.h"

#include <bit>
#include <cerrno>

#include "transport/config/units.h"

namespace weir::tools::perf {
namespace {

// Bytes that hardly repeat, so that stale or shifted ones are noticed.
std::uint64_t pattern(std::uint64_t word) {
  word = (word + 1) * 0x9e3779b97f4a7c15;
  return (word ^ word >> 32) * 0xd6e8feb86659fd93;
}

}  // namespace

std::optional<Memory> Memory::make(const verbs::Device& device, std::uint64_t largest,
                                   std::string& why) {
  Memory made;
  made.piece_bytes_ = std::clamp(std::bit_ceil(largest), line_bytes, most_piece_bytes);
  made.out_bytes_ = stride(largest) + sources * line_bytes;
  const std::uint64_t all = made.word(Word::outbox) + line_bytes;
  made.memory_ = verbs::RegisteredMemory::for_peers(device, all);
  if (!made.memory_) {
    why = "cannot register " + config::format_size(static_cast<std::int64_t>(all)) + ": " +
          verbs::registration_error(errno) + "; --to takes less";
    return {};
  }
  auto* const words = reinterpret_cast<std::uint64_t*>(made.at(0));
  for (std::uint64_t i = 0; i < made.out_bytes_ / 8; ++i) words[i] = pattern(i);
  // So that no page is touched for the first time while something is timed.
  std::memset(made.at(made.out_bytes_), 0, all - made.out_bytes_);
  return made;
}

}  // namespace weir::tools::perf
