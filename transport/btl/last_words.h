// What a process tells rank 0 at its end, and what the words of all make together.
//
// A value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>

#include "base/counters.h"

namespace weir::btl {

struct LastWords {
  Counters counters;  // over all rails
  std::uint64_t registered_peak_bytes = 0;
  std::uint64_t rail_losses = 0;
  std::uint64_t ns = 0;  // since MPI_Init

  void add(const Counters& more) {
    for (const auto& line : counter_table) {
      std::uint64_t& mine = counters.*line.field;
      const std::uint64_t theirs = more.*line.field;
      mine = line.kind == CounterKind::most ? std::max(mine, theirs) : mine + theirs;
    }
  }
  void add(const LastWords& more) {
    add(more.counters);
    registered_peak_bytes = std::max(registered_peak_bytes, more.registered_peak_bytes);
    rail_losses += more.rail_losses;
    ns = std::max(ns, more.ns);
  }
};

inline std::string bytes_text(double bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text;
}

// For people. `ranks` are summed, of `all`.
inline std::string summary_text(const LastWords& sum, std::uint32_t ranks, std::uint32_t all) {
  const Counters& c = sum.counters;
  const double seconds = std::max(static_cast<double>(sum.ns) / 1e9, 1e-9);
  const auto number = [](std::uint64_t n) { return std::to_string(n); };
  const auto bytes = [](std::uint64_t n) { return bytes_text(static_cast<double>(n)); };
  const std::uint64_t moved = c.bytes_sent + c.get_bytes + c.put_bytes;
  char time[32];
  std::snprintf(time, sizeof time, "%.1f s", seconds);
  std::string text = "summary of " + number(ranks) + (ranks == all ? "" : " of " + number(all)) +
                     " ranks, " + time;
  if (ranks < all) text += " (the others did not answer: dead, without weir, or too late)";
  text += "\n  moved       " + bytes(moved) + ": " + bytes(c.bytes_sent) + " in " +
          number(c.messages_sent) + " messages, " + bytes(c.get_bytes) + " by " + number(c.gets) +
          " gets, " + bytes(c.put_bytes) + " by " + number(c.puts) + " puts; " + number(c.atomics) +
          " atomics";
  text += "\n  rate        " + bytes_text(static_cast<double>(moved) / seconds) + "/s, " +
          number(static_cast<std::uint64_t>(static_cast<double>(c.messages_sent) / seconds)) +
          " messages/s";
  text += "\n  waited for  credits of slow receivers " + number(c.credit_stalls) +
          " times, send queues " + number(c.queue_stalls) + ", full pending queues " +
          number(c.back_pressure) + ", tokens " + number(c.token_waits) + ", delays " +
          number(c.rate_waits) + ", reads of the node " + number(c.node_read_waits);
  text += "\n  memory      of a rank at most " + bytes(c.receive_bytes_peak) +
          " for receiving, and " + bytes(sum.registered_peak_bytes) + " of the program registered";
  text += "\n  outages     " + number(c.connections_broken) + " connections broke, " +
          number(c.connections_resumed) + " were made again; " + number(c.frames_resent) +
          " frames and " + number(c.chunks_again) + " chunks went again; " +
          number(sum.rail_losses) + " ways over further rails broke; " + number(c.peer_failures) +
          " peers given up";
  return text;
}

}  // namespace weir::btl
