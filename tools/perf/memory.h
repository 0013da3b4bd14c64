// The memory of one end: what it sends from, where things go, and words that the other end writes.
// Both ends lay it out alike, so that an end's address and key are all that the other one needs.
//
//   out      known bytes; operation N takes its bytes from another place than N - 1
//   in       `places` for what comes
//   words    counters of atomics, and a mailbox
//
// Thread rule: one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "transport/verbs/memory.h"

namespace weir::tools::perf {

inline constexpr std::uint64_t largest_bytes = 64 << 20;  // of an operation
inline constexpr std::uint32_t places = 64;

// An end's memory, as the other end knows it.
struct Shown {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};

class Memory {
 public:
  // For operations of up to `largest` bytes. Nothing, with the reason in `why`, if it cannot be
  // registered.
  static std::optional<Memory> make(const verbs::Device& device, std::uint64_t largest,
                                    std::string& why);

  // A receive buffer of verbs: a message that is longer takes several.
  static constexpr std::uint64_t most_piece_bytes = 1 << 20;
  std::uint64_t piece_bytes() const { return piece_bytes_; }

  // How many operations of so many bytes may be under way: each has a place of its own.
  std::uint32_t places_for(std::uint64_t bytes) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(places, in_bytes() / stride(bytes)));
  }

  // Offsets in the memory of either end.
  static std::uint64_t source(std::uint64_t number) { return number % sources * line_bytes; }
  std::uint64_t place(std::uint64_t number, std::uint64_t bytes) const {
    return out_bytes_ + number % places_for(bytes) * stride(bytes);
  }
  std::uint64_t piece_place(std::uint64_t number) const {
    return out_bytes_ + number % places * piece_bytes_;
  }
  enum class Word : std::uint8_t { added_by_weir, added_by_verbs, mailbox, outbox = mailbox + 8 };
  std::uint64_t word(Word which) const {
    return out_bytes_ + in_bytes() + std::uint64_t{static_cast<std::uint8_t>(which)} * 8;
  }

  std::byte* at(std::uint64_t offset) const { return memory_.data() + offset; }
  std::uint64_t address(std::uint64_t offset = 0) const {
    return reinterpret_cast<std::uint64_t>(at(offset));
  }
  std::uint64_t* word_at(Word which) const {
    return reinterpret_cast<std::uint64_t*>(at(word(which)));
  }
  std::uint32_t lkey() const { return memory_.lkey(); }
  Shown shown() const { return {address(), memory_.rkey()}; }

  // Whether these are the bytes of an operation of the other end: its `out` is filled like ours.
  bool is_as_sent(const std::byte* bytes, std::uint64_t count, std::uint64_t number,
                  std::uint64_t offset = 0) const {
    return std::memcmp(bytes, at(source(number) + offset), count) == 0;
  }

 private:
  static constexpr std::uint64_t line_bytes = 64;
  static constexpr std::uint64_t sources = 61;

  static std::uint64_t stride(std::uint64_t bytes) {
    return (bytes + line_bytes - 1) / line_bytes * line_bytes;
  }
  std::uint64_t in_bytes() const { return places * piece_bytes_; }

  std::uint64_t piece_bytes_ = 0;
  std::uint64_t out_bytes_ = 0;
  verbs::RegisteredMemory memory_;
};

}  // namespace weir::tools::perf
