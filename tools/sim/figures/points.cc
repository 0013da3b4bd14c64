// Points that are scenarios: points.json. What a figure's points have in common stands beside its
// `plays`; a play is a series with what it has of its own, and both may say more for a size:
//
//   {"lane": {"slow": "11@8x", "protocol": "reads", "reads_max": "{}",
//             "full": {"x": [8, 16, 30, 60]}, "smoke": {"x": [30], "to": "100us"},
//             "plays": [{"series": "own lane"}, {"series": "with data", "request_lane": "no"}]}}
//
// The keys are a scenario's (scenario/scenario_file.h), except `series`, `x` and `seeds` (2 in
// full). There is a point for each x. In a text {} stands for it; a list has a value for each x.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/data_files.h"
#include "tools/sim/figures/figure.h"
#include "tools/sim/scenario/scenario_file.h"

namespace weir::sim::figures {
namespace {

using Json = nlohmann::ordered_json;

// The later ones overrule the earlier ones, and what is said of the size overrules the rest.
void add(Json& keys, const Json& more, const char* size) {
  keys.update(more);
  if (more.contains(size)) keys.update(more.at(size));
}

// Taken out of `keys`: what is left is a scenario's.
template <typename T>
T take(Json& keys, const char* key, const T& fallback = {}) {
  const T value = keys.value(key, fallback);
  keys.erase(key);
  return value;
}

// Of one key, for the x at that place.
std::string text_of(const Json& value, std::size_t place, double x) {
  if (value.is_array()) return text_of(value.at(place), place, x);
  return value.is_string() ? fmt::format(fmt::runtime(value.get<std::string>()), x) : value.dump();
}

network::Scenario scenario_of(const Json& keys, std::size_t place, double x,
                              const std::string& where) {
  std::string yaml;
  for (const auto& [key, value] : keys.items()) {
    yaml += fmt::format("{}: {}\n", key, text_of(value, place, x));
  }
  const ScenarioFile file = parse_scenario(yaml, where);
  if (file.problems.empty()) return file.scenario;
  throw std::runtime_error(config::to_text(file.problems.front()));
}

}  // namespace

std::vector<Point> scenario_points(const std::string& figure, Size size) {
  static const Json all = Json::parse(std::ifstream(tools::data_file("sim/figures/points.json")));
  const char* const name = size == Size::full ? "full" : "smoke";
  std::vector<Point> points;
  const Json of_figure = all.value(figure, Json::object());
  for (const Json& play : of_figure.value("plays", Json::array())) {
    Json keys;
    add(keys, of_figure, name);
    add(keys, play, name);
    for (const char* const done : {"plays", "full", "smoke"}) keys.erase(done);
    const auto series = take<std::string>(keys, "series");
    const auto all_x = take<std::vector<double>>(keys, "x");
    const std::uint32_t seeds = take(keys, "seeds", size == Size::full ? 2u : 1u);
    for (std::size_t i = 0; i < all_x.size(); ++i) {
      const network::Scenario scenario = scenario_of(keys, i, all_x[i], figure + ", " + series);
      points.push_back(point(series, all_x[i], scenario, seeds));
    }
  }
  return points;
}

}  // namespace weir::sim::figures
