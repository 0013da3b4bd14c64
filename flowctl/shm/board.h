// What a process shows of itself to the others of its node: who it is and what it has counted, for
// `weir top` and for whoever wonders how many of a job share a segment.
//
// Written by its process now and then, a word at a time: numbers that belong together may be from
// two moments. Valid while the slot of the same index in the token pool is leased and `shown_at` is
// not 0.
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
  SharedWord tokens;         // of the node, as many as it uses; 0: it takes none
  SharedWord shown_at;       // CLOCK_MONOTONIC, ns; of the counters
  SharedWord waiting_since;  // for tokens or reads of the node; 0: not
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
