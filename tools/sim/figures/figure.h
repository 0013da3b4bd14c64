// The figures: points to play, and what of them is claimed. All of that is data. points.json has the
// points; what they have in common stands beside the `plays` of a figure. A play is a series with
// what it has of its own, and both may say more for a size:
//
//   {"lane": {"slow": "11@8x", "protocol": "reads", "reads_max": "{}",
//             "full": {"x": [8, 16, 30, 60]}, "smoke": {"x": [30], "to": "100us"},
//             "plays": [{"series": "own lane"}, {"series": "with data", "request_lane": "no"}]}}
//
// The keys are a scenario's (scenario/scenario_file.h), except `series`, `x` and `seeds` (2 in
// full). There is a point for each x. In a text {} stands for it; a list has a value for each x.
//
// claims.json has what figures say and claim:
//
//   {"lane": {"title": "…", "source": "[RDRP] Fig. 9", "differs": "…", "x_label": "c",
//             "claims": [{"is": "c = 30", "of": "c = 8", "paper": "2", "range": [1.6, 2.4],
//                         "verdict": "yes", "number": ["own lane", 30], "over": ["own lane", 8]}]}}
//
// A number is `number`, divided by `over` if there is that. Each is a term [series, x, value], or the
// most of several, or of several x. In `range` it is what the paper says. A run judges, and fails
// where its verdict is another one than the file's.
//
// Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/sim/network/scenario.h"

namespace weir::sim::figures {

enum class Size : std::uint8_t {
  full,   // the paper's
  smoke,  // a few points on a small fabric, for every change: seconds
};

struct Term {
  std::string series;
  std::vector<double> x;
  std::string value = "throughput";
};

struct Claim {
  std::string is;                 // what the number is
  std::string of;                 // what it is compared with, if it is a ratio
  std::string paper;              // the paper's number or shape; empty: not stated
  std::array<double, 2> range{};  // where it is what is claimed
  std::string verdict;            // that of `judge`
  std::vector<Term> number;       // the most of these
  std::vector<Term> over;         // divided by the most of these
};

// yes: within the range. A ratio may be weaker or stronger than that, on the same side of 1. A tenth
// of difference is none.
std::string judge(const Claim& claim, double ours);

struct Point {
  std::string series;
  double x = 0;
  std::uint32_t seeds = 1;
  network::Scenario scenario;
};

struct Figure {
  std::string name;     // of the command line and of files
  std::string title;
  std::string source;   // "[RDRP] Fig. 1"
  std::string differs;  // how ours differs
  std::string x_label;
  std::string y_label = "throughput, flits a node and cycle";
  std::string y = "throughput";  // which value is drawn
  std::string log;               // the axes that are logarithmic: "x", "y", "xy"
  std::vector<Claim> claims;
  std::vector<Point> points;
};

// In the order of the file. Throws std::runtime_error with the file's name if it is not as above.
std::vector<Figure> read_figures(const std::string& claims_file, Size size);

class Results {
 public:
  struct Row {
    std::string series;
    double x = 0;
    std::uint64_t seed = 0;
    network::Measured measured;
  };
  std::vector<Row> rows;  // in the order of the points, whatever order they were played in

  // Over the seeds of a point; NaN if there is no such point.
  double mean(const std::string& series, double x, const std::string& value = "throughput") const;
  double of(const Claim& claim) const;

 private:
  double most(const std::vector<Term>& terms) const;
};

// Plays the points of figures, several at a time: the result does not depend on how many. Seeds are
// first_seed, first_seed + 1, …. `tell` is called after each point with how many are done and of how
// many, by one thread at a time.
std::vector<Results> play(
    const std::vector<Figure>& figures, unsigned jobs, std::uint64_t first_seed,
    const std::function<void(std::size_t done, std::size_t of)>& tell,
    const std::function<network::Measured(const network::Scenario&, std::uint64_t)>& run =
        network::run);

// ---- what is left of a run (report.cc): for each figure its points as CSV and a picture, and one
// report with what the papers say beside it

// A figure that was played. Claims of points that were not played are left out.
struct Shown {
  Shown(const Figure& figure, const Results& results);

  struct Row {
    const Claim* claim;
    double ours;
    std::string verdict;
  };
  const Figure& figure;
  const Results& results;
  std::vector<Row> rows;
  std::vector<std::string> faults;  // broken promises, and verdicts that are not the claim's
};

std::string to_csv(const Results& results);
// As SVG, into that file. False where there is no gnuplot.
bool draw(const Shown& shown, const std::string& file);
// A table for the terminal.
std::string to_text(const Shown& shown);
// `how`: what it took. Pictures and CSV are in the folder data.
std::string to_markdown(const std::vector<Shown>& figures, const std::string& how);

}  // namespace weir::sim::figures
