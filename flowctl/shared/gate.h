// Who comes into a segment while another process removes it: one of the two sees the other.
//
//   comes:    takes a slot, then looks at the gate; open: it is in
//   removes:  closes the gate, then looks at the slots; empty: the segment loses its name
//
// Each looks by an exchange: two exchanges of one word see each other, and what each did before.
// With plain loads both might see nothing, for a load may pass an earlier store (on x86, too, if
// the store is no exchange).
//
// Pure; any process.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "flowctl/shared/lease.h"
#include "flowctl/shared/token_pool.h"

namespace weir {

// Reads a word by an exchange, so that the read is ordered with other exchanges.
template <typename Word>
std::uint64_t look_at(Word& word) {
  std::uint64_t now = word.load();
  while (!word.compare_exchange(now, now)) continue;
  return now;
}

template <typename Word, typename Alive>
bool anybody_lives_in(std::span<PoolSlot<Word>> slots, Alive&& alive) {
  for (PoolSlot<Word>& slot : slots) {
    const std::uint64_t lease = look_at(slot.lease);
    if (!lease::free(lease) && !lease::expired(lease, alive)) return true;
  }
  return false;
}

// Takes the name from a segment in which nobody lives. Takes over a gate closed by a process that
// died. A process that finds the gate closed by a living one may go: that one looks again after
// opening it. True if the name is gone.
//
// `has_name()`: by the time the gate is closed, the segment may have lost its name, and the path
// may be another one's. `take_name()`: false if it cannot.
template <typename Word, typename Alive, typename HasName, typename TakeName>
bool remove_if_empty(Word& gate, std::span<PoolSlot<Word>> slots, ProcessId self, Alive&& alive,
                     HasName&& has_name, TakeName&& take_name) {
  do {
    std::uint64_t before = look_at(gate);
    if (!lease::free(before) && alive(lease::process(before))) return false;
    std::uint64_t mine = lease::taken(before, self);
    if (!gate.compare_exchange(before, mine)) return false;
    if (!has_name()) return false;
    const bool empty = !anybody_lives_in(slots, alive);
    if (empty && take_name()) return true;  // closed for good
    gate.compare_exchange(mine, lease::freed(mine));
    if (empty) return false;
  } while (!anybody_lives_in(slots, alive));
  return false;
}

}  // namespace weir
