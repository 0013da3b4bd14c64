// What a process shows about itself to the others of its node: its identity, its counters, its
// caps, how long its reads take and where it stands with some peers, for `weir top` and for
// counting how many of a job's processes share a segment. Only the order for other caps is written
// by others.
//
// Its process writes it now and then, a word at a time: related numbers may be from two moments.
// Valid while the slot of the same index in the token pool is leased and `shown_at` is not 0.
//
// Any thread of any process that maps it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "base/caps.h"
#include "base/counters.h"
#include "base/peer_row.h"
#include "base/read_times.h"
#include "flowctl/shared/shared_word.h"
#include "flowctl/shm/caps_order.h"

namespace weir {

struct Board {
  static constexpr std::size_t counter_words = sizeof(Counters) / sizeof(std::uint64_t);
  static constexpr std::uint32_t most_peers = 32;

  SharedWord job;
  SharedWord rank;
  SharedWord tokens;         // of the node, as many as this process uses; 0: it takes none
  SharedWord shown_at;       // time of the counters, CLOCK_MONOTONIC, ns
  SharedWord waiting_since;  // for tokens or reads of the node; 0: not waiting
  SharedWord caps[std::tuple_size_v<Caps>];  // in effect
  SharedWord order_seen;  // mark of the last order that was obeyed, or ~mark of one that was refused
  SharedWord order[std::tuple_size_v<CapsOrder::Words>];
  SharedWord counters[counter_words];
  SharedWord read_times[ReadTimes::buckets];
  SharedWord read_ns_sum;
  SharedWord peer_count;  // rows that are valid
  SharedWord peers[most_peers][std::tuple_size_v<PeerRow::Words>];

  void show(std::uint64_t now_ns, const Counters& values) {
    const auto* const from = reinterpret_cast<const std::uint64_t*>(&values);
    for (std::size_t i = 0; i < counter_words; ++i) counters[i].store(from[i]);
    shown_at.store(now_ns);
  }
  void show(const ReadTimes& times) {
    for (std::size_t i = 0; i < ReadTimes::buckets; ++i) read_times[i].store(times.counts[i]);
    read_ns_sum.store(times.sum_ns);
  }
  void show(const Caps& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      caps[i].store(static_cast<std::uint64_t>(values[i]));
    }
  }
  // The first `most_peers` of them.
  void show(std::span<const PeerRow> rows) {
    const std::size_t count = std::min<std::size_t>(rows.size(), most_peers);
    for (std::size_t i = 0; i < count; ++i) {
      const PeerRow::Words words = rows[i].pack();
      for (std::size_t w = 0; w < words.size(); ++w) peers[i][w].store(words[w]);
    }
    peer_count.store(count);
  }

  void read(Counters& values) const {
    auto* const to = reinterpret_cast<std::uint64_t*>(&values);
    for (std::size_t i = 0; i < counter_words; ++i) to[i] = counters[i].load();
  }
  void read(Caps& values) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::int64_t>(caps[i].load());
    }
  }
  // A whole order for the owner of `lease` that it has not seen.
  std::optional<CapsOrder> new_order(std::uint64_t lease) const {
    const std::uint64_t mark = order[std::size(order) - 1].load(), seen = order_seen.load();
    if (mark == seen || mark == ~seen) return std::nullopt;
    CapsOrder::Words words;
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = order[i].load();
    const auto found = std::bit_cast<CapsOrder>(words);
    if (!found.is_whole() || found.lease != lease) return std::nullopt;
    return found;
  }
  void read(ReadTimes& times) const {
    for (std::size_t i = 0; i < ReadTimes::buckets; ++i) times.counts[i] = read_times[i].load();
    times.sum_ns = read_ns_sum.load();
  }
  void read(std::vector<PeerRow>& rows) const {
    rows.resize(std::min<std::size_t>(peer_count.load(), most_peers));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      PeerRow::Words words;
      for (std::size_t w = 0; w < words.size(); ++w) words[w] = peers[i][w].load();
      rows[i] = PeerRow::unpack(words);
    }
  }
};

}  // namespace weir
