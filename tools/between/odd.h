// Which hosts are worse than the others, and what says why.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/between/table.h"

namespace weir::tools::between {

// A host that was asked.
struct Tested {
  std::string name;
  std::string at;              // its switch; empty: nobody said
  std::optional<Facts> facts;  // nothing: it has not answered
  std::string why_lost;        // at once, or on its way
};

// Those that have answered, and what they said.
std::vector<std::pair<std::string, Facts>> answered(const std::vector<Tested>& hosts);

// What the best quarter of the ways does. Medians would not do: of few hosts one slow host may have
// half of the ways. 0: no way was measured.
struct Good {
  double latency_us = 0;
  double bytes_per_second = 0;
};
Good good_of(const std::vector<Way>& ways);

// "0.123 GB/s", "12.3 GB/s".
std::string rate_text(double bytes_per_second);

// How many times as slow as that: the worst of latency and both directions, 1 at least. Nothing if
// it could not be measured.
std::optional<double> slowness(const Way& way, const Good& good);

// It failed, or is far slower than the others.
bool is_bad(const Way& way, const Good& good);

// Hosts of bad ways that have answered so far, by their numbers.
std::vector<std::size_t> suspects(const std::vector<Tested>& hosts, const std::vector<Way>& ways);
// Those of other ways.
std::vector<std::size_t> well(const std::vector<Tested>& hosts, const std::vector<Way>& ways);

// A host that is lost, or most of whose ways are bad, or whose slot, cable or counters stand out.
struct Odd {
  std::string host;
  Finding finding;
};
std::vector<Odd> odd_hosts(const std::vector<Tested>& hosts, const std::vector<Way>& ways);

}  // namespace weir::tools::between
