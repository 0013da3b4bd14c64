// The node's read budget: what all processes of a node together keep outstanding on a port. Each
// process has its own limit for that sum (its window, see budget_controller.h), and all take tokens
// from a shared pool, in the order they ask. So a chunk is issued when everything the node has
// outstanding, including this chunk, is within the issuer's window, or nothing else is.
//
// Without a pool the process has the port for itself.
//
// Differs: [RDRP §3.3] bounds each transfer; a node with n receiving processes then has n*c.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>

#include "flowctl/shared/pool_member.h"

namespace weir {

class NodeReads {
 public:
  static constexpr std::uint64_t bytes_per_token = 4096;

  static constexpr std::uint32_t tokens(std::uint64_t bytes) {
    return std::min(TokenCost{bytes_per_token}.tokens(bytes), PoolMember::most_tokens);
  }

  // The bytes charged for a read of `bytes`.
  static constexpr std::uint64_t charged_bytes(std::uint64_t bytes) {
    return tokens(bytes) * bytes_per_token;
  }

  void join(PoolMember::Pool* pool) { member_.join(pool); }

  // Whether the node has room for `bytes` more, within a window of `window_bytes`.
  bool ensure(std::uint64_t bytes, std::uint64_t window_bytes) {
    return !member_.joined() || member_.ensure(tokens(bytes), limit(bytes, window_bytes));
  }
  // The bytes are issued. Returns their tokens.
  std::uint32_t commit() { return member_.joined() ? member_.commit() : 0; }
  void give(std::uint32_t tokens) {
    if (tokens > 0) member_.give(tokens);
  }
  // Nothing has to be issued now.
  void decline(std::uint64_t window_bytes) {
    if (member_.joined()) member_.decline(limit(0, window_bytes));
  }

  // Call from time to time while reads wait (PoolMember::look_at_all).
  void look_at_all() { member_.look_at_all(); }
  // Likewise (PoolMember::excuse).
  std::uint64_t excuse() { return member_.waiting() ? member_.excuse() : 0; }

  bool waiting() const { return member_.waiting(); }
  // Neither waits for tokens nor has any that no read has taken along.
  bool idle() const { return !member_.waiting() && member_.in_hand() == 0; }
  std::uint32_t out() const { return member_.out(); }
  // What the node's other processes have outstanding or wait for, rounded up to whole tokens, as
  // far as it was seen recently (PoolMember::asked_by_others).
  std::uint64_t bytes_of_others() {
    return member_.joined() ? member_.asked_by_others() * bytes_per_token : 0;
  }

 private:
  static std::uint32_t limit(std::uint64_t bytes, std::uint64_t window_bytes) {
    const std::uint64_t window = std::max(window_bytes, bytes) / bytes_per_token;
    return static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(window, tokens(bytes), PoolMember::most_tokens));
  }

  PoolMember member_;
};

}  // namespace weir
