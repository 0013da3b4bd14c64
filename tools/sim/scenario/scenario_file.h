// A scenario as people write it: a flat YAML file with units. Its keys are one table, read as the
// transport's are; mistakes are named with their line, and the key that was probably meant.
//
// Any thread.
#pragma once

#include <string>
#include <vector>

#include "tools/sim/network/scenario.h"
#include "transport/config/source.h"

namespace weir::sim {

struct ScenarioKey {
  const char* name;
  std::string takes;     // for a person
  const char* fallback;  // the default, as text
  std::string with;      // what it belongs to, as "endpoints: core"; empty: everything
  const char* help;
};

// Every key there is, in the order they are worth reading.
std::vector<ScenarioKey> scenario_keys();

struct ScenarioFile {
  network::Scenario scenario;
  std::vector<config::Problem> problems;
};

// `text` under the name `file`.
ScenarioFile parse_scenario(const std::string& text, const std::string& file);
ScenarioFile read_scenario(const std::string& path);

}  // namespace weir::sim
