// "What c and chunk size should my cluster use?": tries them on a model of it.
//
// Single-threaded for the caller; plays points in parallel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/sim/network/scenario.h"

namespace weir::sim {

struct Candidate {
  std::uint64_t chunk_bytes = 0;
  std::uint32_t reads = 0;  // 0: auto
  double throughput = 0;    // of a link, mean of all nodes
  double first_percentile = 0;
  double latency_us = 0;
  std::string violation;
};

struct Advice {
  double unbounded = 0;  // what there is without a bound
  std::vector<Candidate> candidates;
  std::size_t best = 0;  // the one that is advised
  std::string yaml;      // keys of the transport
};

// `cluster`: fabric, slow nodes and streams. Its protocol and budget are what is looked for.
Advice advise(const network::Scenario& cluster, unsigned jobs, std::uint64_t seed,
              const std::function<void(std::size_t done, std::size_t all, double left_s)>& tell);

}  // namespace weir::sim
