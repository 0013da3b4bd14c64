// A figure: points to play, and what of them is claimed. The table of all figures is in figures.cc.
// Points that are scenarios are in points.json (points.cc), others in a function of the figure's.
// What it and its claims say, and what they are held to, is in claims.json (claims.h).
//
// Plain values; `Point::play` may run in any thread, with others beside it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tools/sim/figures/claims.h"
#include "tools/sim/network/scenario.h"

namespace weir::sim {

struct Plan;
struct Outcome;

}  // namespace weir::sim

namespace weir::sim::figures {

using network::Measured;
using network::Values;

struct Point {
  std::string series;
  double x = 0;
  std::uint32_t seeds = 1;
  std::function<Measured(std::uint64_t seed)> play;
};

class Results {
 public:
  struct Row {
    std::string series;
    double x = 0;
    std::uint64_t seed = 0;
    Measured measured;
  };

  std::vector<Row> rows;  // in the order of the points, whatever order they were played in

  // Over the seeds of a point; NaN if there is no such point.
  double mean(const std::string& series, double x, const std::string& value = "throughput") const;
  double median(const std::string& series, double x, const std::string& value) const;
  // The most of the means over all x.
  double best(const std::string& series, const std::string& value) const;
  // The most of those.
  double most(const std::vector<Term>& terms, Size size) const;

 private:
  std::vector<double> all(const std::string& series, double x, const std::string& value) const;
};

struct Figure {
  std::string name;
  Said said;
  std::vector<Point> points;
};

struct Entry {
  const char* name;                                 // of the command line and of files
  std::vector<Point> (*make)(Size size) = nullptr;  // what is not in points.json
};

std::span<const Entry> all();
const Entry* find(const std::string& name);
// With what the file says of it.
Figure make(const Entry& entry, Size size, const Claims& claims);

// What an axis has in that size.
using Axis = std::vector<std::uint32_t>;
inline Axis axis(Size size, Axis full, Axis smoke) { return size == Size::full ? full : smoke; }

Point point(std::string series, double x, const network::Scenario& scenario,
            std::uint32_t seeds = 1);

// Those of a figure that points.json has.
std::vector<Point> scenario_points(const std::string& figure, Size size);

// Plays a world of few processes (tools/sim/world.h) and asks its outcome for the values.
Measured play(const Plan& plan, const std::function<Values(const Outcome&)>& values);

// Worlds of arws-fig2 (the halo, W_max 256) and tok-rate (ITT, 64 outstanding), for a test that
// changes what ships in them.
Plan arws_world(std::uint64_t seed);
Plan tok_world(std::uint64_t seed);

// The makers.
std::vector<Point> arws_fig2(Size size);
std::vector<Point> arws_fig3(Size size);
std::vector<Point> tok_rate(Size size);
std::vector<Point> tok_cores(Size size);

}  // namespace weir::sim::figures
