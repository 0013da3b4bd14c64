// What was found of the ways between hosts, as text.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/between/judge.h"

namespace weir::tools::between {

// One way, both directions.
struct Way {
  std::string from;
  std::string to;
  Findings findings;
  std::optional<double> latency_us;
  std::optional<double> to_bytes_per_second;    // from `from` to `to`
  std::optional<double> from_bytes_per_second;  // back
  std::vector<Rise> rose_from;                  // counters of `from`
  std::vector<Rise> rose_to;
  std::size_t round = 0;
  double seconds = 0;
};

// Adds a warning to each way of several that is far worse than the others.
void name_odd_ones(std::vector<Way>& ways);

// A line for each way, a column for each check: ok, warn, FAIL, or a number; '-' was not tried. A
// number with '!' has a warning.
std::string table_of(const std::vector<Way>& ways);

// Hosts by hosts: latencies in us, then MB/s from the host of the line to that of the column.
std::string matrix_of(const std::vector<Way>& ways, const std::vector<std::string>& hosts);

// "12 of 250 pairs, 40 s left". `spent_s`: for the `done` ones.
std::string progress_text(std::size_t done, std::size_t all, double spent_s);

}  // namespace weir::tools::between
