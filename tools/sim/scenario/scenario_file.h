// A scenario as people write it: a flat YAML file with units. Its keys are one table, read as the
// transport's are; mistakes are named with their line, and the key that was probably meant.
//
// Any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/sim/network/scenario.h"
#include "transport/config/schema.h"
#include "transport/config/source.h"

namespace weir::sim {

struct ScenarioKey {
  config::Form form;
  // With the number and the text that was written; returns what is wrong with it, or nothing.
  std::string (*set)(network::Scenario&, std::int64_t, std::string_view);
  std::string_view with;  // what it belongs to, as "endpoints: core"; empty: everything
  const char* help;
  const char* takes = nullptr;  // for a person, of text
};

// Every key there is, in the order they are worth reading.
std::span<const ScenarioKey> scenario_keys();

struct ScenarioFile {
  network::Scenario scenario;
  std::vector<config::Problem> problems;
};

// `text` under the name `file`.
ScenarioFile parse_scenario(const std::string& text, const std::string& file);
ScenarioFile read_scenario(const std::string& path);

}  // namespace weir::sim
