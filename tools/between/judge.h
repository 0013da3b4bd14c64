// What the doctor makes of two hosts: of what they say of themselves, and of what was measured.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/between/counters.h"
#include "tools/between/facts.h"
#include "tools/doctor/check.h"

namespace weir::tools::between {

using doctor::Finding;
using doctor::Findings;

// One of the two ends. `name`: as the user calls it.
struct End {
  std::string name;
  Facts facts;
};

// Versions, the keys that have to agree, those of the path, link layer, MTU, rails.
Findings compare(const End& here, const End& there);

// A queue pair that connected, or did not.
Finding judge_connection(const End& here, const End& there, double took_ms, const std::string& why);

// A packet as large as the path's MTU, both ways. `smaller_passes`: one of so many bytes did, or 0.
Finding judge_packet(std::uint64_t mtu, const std::string& why, std::uint64_t smaller_passes,
                     const End& here, const End& there);

Finding judge_latency(const End& here, const End& there, double half_round_us);

// `name`: "to" or "from". What data took, in bytes a second, against what the slower port can.
Finding judge_bandwidth(const char* name, const End& sender, const End& receiver,
                        double bytes_per_second);
// The two directions against each other: nothing if there is nothing to say.
std::optional<Finding> judge_directions(const End& here, const End& there, double to, double from);

Finding judge_counters(const End& here, const std::vector<Rise>& rose_here, const End& there,
                       const std::vector<Rise>& rose_there, bool any_counters);

// So much worse than the median is odd.
inline constexpr double odd_factor = 1.5;

// Of numbers that are not sorted; 0 if there are none.
double median_of(std::vector<double> numbers);

// Those of `values`, of several hosts, that are far worse than their median. `higher_is_worse`:
// latencies. Only of three or more: of two nobody is the odd one.
std::vector<std::size_t> odd_ones(const std::vector<double>& values, bool higher_is_worse);

}  // namespace weir::tools::between
