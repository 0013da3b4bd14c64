#include <fmt/format.h>
#include <time.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "tools/data_files.h"
#include "tools/sim/figures/figure.h"
#include "tools/sim/scenario/scenario_file.h"

namespace weir::sim::figures {

using Json = nlohmann::ordered_json;

void from_json(const Json& json, Term& term) {
  json.at(0).get_to(term.series);
  term.x = json.at(1).is_array() ? json.at(1).get<std::vector<double>>()
                                 : std::vector<double>{json.at(1).get<double>()};
  if (json.size() > 2) json.at(2).get_to(term.value);
}

// One, or several.
void from_json(const Json& json, std::vector<Term>& terms) {
  for (const Json& term : json.at(0).is_string() ? Json::array({json}) : json) {
    terms.push_back(term.get<Term>());
  }
}

void from_json(const Json& json, Claim& claim) {
  claim = {.is = json.at("is"),
           .of = json.value("of", ""),
           .paper = json.value("paper", ""),
           .range = json.at("range"),
           .verdict = json.at("verdict"),
           .number = json.at("number"),
           .over = json.value("over", std::vector<Term>{})};
}

void from_json(const Json& json, Figure& figure) {
  figure.title = json.at("title");
  figure.source = json.at("source");
  figure.differs = json.at("differs");
  figure.x_label = json.at("x_label");
  figure.y_label = json.value("y_label", figure.y_label);
  figure.y = json.value("y", figure.y);
  figure.log = json.value("log", "");
  figure.claims = json.at("claims").get<std::vector<Claim>>();
}

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

Json read(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file + ": cannot be read");
  return Json::parse(stream);
}

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

std::vector<Point> points_of(const Json& figure, const std::string& name, Size size) {
  const char* const of_size = size == Size::full ? "full" : "smoke";
  std::vector<Point> points;
  for (const Json& play : figure.at("plays")) {
    Json keys;
    add(keys, figure, of_size);
    add(keys, play, of_size);
    for (const char* const done : {"plays", "full", "smoke"}) keys.erase(done);
    const auto series = take<std::string>(keys, "series");
    const auto all_x = take<std::vector<double>>(keys, "x");
    const std::uint32_t seeds = take(keys, "seeds", size == Size::full ? 2u : 1u);
    for (std::size_t i = 0; i < all_x.size(); ++i) {
      points.push_back(
          {series, all_x[i], seeds, scenario_of(keys, i, all_x[i], name + ", " + series)});
    }
  }
  return points;
}

// Of this thread alone: points run side by side.
double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

std::vector<Figure> read_figures(const std::string& claims_file, Size size) {
  std::vector<Figure> figures;
  try {
    const Json points = read(tools::data_file("sim/figures/points.json"));
    const Json claims = read(claims_file);
    for (const auto& [name, said] : claims.items()) {
      Figure& figure = figures.emplace_back(said.get<Figure>());
      figure.name = name;
      figure.points = points_of(points.at(name), name, size);
    }
  } catch (const Json::exception& error) {
    throw std::runtime_error(claims_file + ": " + error.what());
  }
  return figures;
}

std::string judge(const Claim& claim, double ours) {
  const auto [least, most] = claim.range;
  if (ours >= least && ours <= most) return "yes";
  if (!claim.of.empty() && ((least > 1 && ours > 1.1) || (most < 1 && ours < 0.9))) {
    return (least > 1) == (ours < least) ? "weaker" : "stronger";
  }
  return "no";
}

double Results::mean(const std::string& series, double x, const std::string& value) const {
  double sum = 0;
  double count = 0;
  for (const Row& row : rows) {
    if (row.series != series || row.x != x) continue;
    sum += row.measured[value];
    ++count;
  }
  return count > 0 ? sum / count : none;
}

double Results::most(const std::vector<Term>& terms) const {
  double most = none;
  for (const Term& term : terms) {
    for (const double x : term.x) most = std::fmax(most, mean(term.series, x, term.value));
  }
  return most;
}

double Results::of(const Claim& claim) const {
  return claim.over.empty() ? most(claim.number) : most(claim.number) / most(claim.over);
}

std::vector<Results> play(
    const std::vector<Figure>& figures, unsigned jobs, std::uint64_t first_seed,
    const std::function<void(std::size_t done, std::size_t of)>& tell,
    const std::function<network::Measured(const network::Scenario&, std::uint64_t)>& run) {
  struct Task {
    const Point* point;
    Results* results;
    std::size_t row;
  };
  std::vector<Results> results(figures.size());
  std::vector<Task> tasks;
  for (std::size_t f = 0; f < figures.size(); ++f) {
    for (const Point& point : figures[f].points) {
      for (std::uint32_t s = 0; s < point.seeds; ++s) {
        tasks.push_back({&point, &results[f], results[f].rows.size()});
        results[f].rows.push_back({point.series, point.x, first_seed + s, {}});
      }
    }
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t done = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < tasks.size(); i = next++) {
      Results::Row& row = tasks[i].results->rows[tasks[i].row];
      const double begin = cpu_seconds();
      try {
        row.measured = run(tasks[i].point->scenario, row.seed);
      } catch (const std::exception& error) {
        row.measured.violation = error.what();
      }
      row.measured.cpu_s = cpu_seconds() - begin;
      const std::lock_guard lock(mutex);
      if (tell) tell(++done, tasks.size());
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 1; i < jobs; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return results;
}

}  // namespace weir::sim::figures
