// What a process shows about itself to the others of its node: its identity and its counters, for
// `weir top` and for counting how many of a job's processes share a segment.
//
// Its process writes it now and then, a word at a time: related numbers may be from two moments.
// Valid while the slot of the same index in the token pool is leased and `shown_at` is not 0.
//
// Any thread of any process that maps it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flowctl/shared/shared_word.h"
#include "transport/base/counters.h"

namespace weir {

struct Board {
  static constexpr std::size_t counter_words = sizeof(Counters) / sizeof(std::uint64_t);

  SharedWord job;
  SharedWord rank;
  SharedWord tokens;         // of the node, as many as this process uses; 0: it takes none
  SharedWord shown_at;       // time of the counters, CLOCK_MONOTONIC, ns
  SharedWord waiting_since;  // for tokens or reads of the node; 0: not waiting
  SharedWord counters[counter_words];

  void show(std::uint64_t now_ns, const Counters& values) {
    const auto* const from = reinterpret_cast<const std::uint64_t*>(&values);
    for (std::size_t i = 0; i < counter_words; ++i) counters[i].store(from[i]);
    shown_at.store(now_ns);
  }

  void read(Counters& values) const {
    auto* const to = reinterpret_cast<std::uint64_t*>(&values);
    for (std::size_t i = 0; i < counter_words; ++i) to[i] = counters[i].load();
  }
};

}  // namespace weir
