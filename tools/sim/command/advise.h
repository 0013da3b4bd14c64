// "What c and chunk size should my cluster use?": tries them on a model of it.
//
// Single-threaded for the caller; plays points in parallel.
#pragma once

#include <string>

#include "tools/sim/figures/runner.h"

namespace weir::sim {

struct Advice {
  std::string table;  // every candidate, as comments
  std::string yaml;   // keys of the transport, and how sure they are
};

// `cluster`: fabric, slow nodes and streams. Its protocol and budget are what is looked for. Each
// choice is played with `seeds` seeds, from `seed` on, at least one.
Advice advise(const network::Scenario& cluster, unsigned jobs, std::uint64_t seed,
              std::uint32_t seeds, const std::function<void(const figures::Progress&)>& tell);

}  // namespace weir::sim
