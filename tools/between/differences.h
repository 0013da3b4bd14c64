// What hosts are configured with, or made of, that others are not.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/between/facts.h"

namespace weir::tools::between {

// Hosts that have the same value; where each has it from.
struct Same {
  std::string value;
  std::vector<std::pair<std::string, std::string>> hosts;  // and where
};

struct Difference {
  std::string key;
  bool alike = false;        // it has to be the same in all processes
  std::vector<Same> values;  // the one that most have first
};

// What hosts say of one thing.
using Said = std::vector<std::pair<std::string, Setting>>;  // by host

// Nothing if all say the same.
std::optional<Difference> difference(const std::string& key, bool alike, const Said& said);

// Of the hardware: each fact that is not the same everywhere.
std::vector<Difference> hardware_differences(
    const std::vector<std::pair<std::string, Facts>>& hosts);

// Of each key that is not the same everywhere, those that have to be first.
std::vector<Difference> differences(const std::vector<std::pair<std::string, Facts>>& hosts);

// "buffer_size  8KiB: node1 (default); 16KiB: node2 (/etc/weir/weir.yaml:1)". Of the hosts that are
// many and agree, only some are named.
std::string line_of(const Difference& difference);

Json to_json(const std::vector<Difference>& differences);

}  // namespace weir::tools::between
