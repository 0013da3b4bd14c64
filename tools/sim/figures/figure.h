// A figure: points to play, what a paper says of it, and what of it can be checked. The table of
// all figures is in figures.cc; a new one is a function there and in a file of its own.
//
// Plain values; `Point::play` may run in any thread, with others beside it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tools/sim/network/scenario.h"

namespace weir::sim {

struct Plan;
struct Outcome;

}  // namespace weir::sim

namespace weir::sim::figures {

// What one run of a point gave, by name: "throughput", "latency_cycles". The names are columns.
using Values = std::vector<std::pair<std::string, double>>;

struct Sample {
  Values values;
  std::uint64_t events = 0;
  std::uint64_t trace_hash = 0;
  double cpu_s = 0;
  std::string violation;        // empty: all checks held
  std::vector<double> windows;  // throughput of each 1,000 cycles, where there is such a thing
  double peak_mib = 0;  // of the whole process by the end of this, what runs beside included
};

struct Point {
  std::string series;
  double x = 0;
  std::uint32_t seeds = 1;
  double cost = 1;  // CPU seconds or so: for the time that is left
  std::function<Sample(std::uint64_t seed)> play;
};

class Results {
 public:
  struct Row {
    std::string series;
    double x = 0;
    std::uint64_t seed = 0;
    Sample sample;
  };

  std::vector<Row> rows;  // in the order of the points, whatever order they were played in

  // Over the seeds of a point; NaN if there is no such point.
  double mean(const std::string& series, double x, const std::string& value = "throughput") const;
  double median(const std::string& series, double x, const std::string& value = "throughput") const;

 private:
  std::vector<double> all(const std::string& series, double x, const std::string& value) const;
};

// A number that a paper states, and ours.
struct Claim {
  std::string name;   // the key of its band
  std::string text;   // what it is
  std::string paper;  // the paper's number, or a shape in words
  double ours = 0;
};

enum class Size : std::uint8_t {
  full,   // the paper's
  smoke,  // a few points on a small fabric, for every change: seconds
};

struct Figure {
  std::string title;
  std::string source;   // "[RDRP] Fig. 1"
  std::string shows;    // what the paper's figure shows, for the report
  std::string differs;  // how ours differs, and what is not reproduced
  std::string x_label;
  std::string y_label = "throughput, flits a node and cycle";
  std::string y = "throughput";  // which value is drawn
  bool log_x = false;
  bool log_y = false;
  std::vector<Point> points;
  std::function<std::vector<Claim>(const Results&)> claims;
};

struct Entry {
  const char* name;   // of the command line and of files
  const char* about;  // one line
  Figure (*make)(Size size);
};

// A figure that cannot be played yet: it has its place, and no numbers.
struct Waiting {
  const char* name;
  const char* about;
  const char* waits_for;
};

std::span<const Entry> all();
std::span<const Waiting> waiting();
const Entry* find(const std::string& name);

// 1 and 2 in full, 1 in smoke.
inline std::uint32_t seeds(Size size) { return size == Size::full ? 2 : 1; }

// A point that plays a scenario.
Point point(std::string series, double x, const network::Scenario& scenario,
            std::uint32_t seeds = 1);
Sample sample(const network::Measured& measured);

// Plays a world of few processes (tools/sim/world.h) and asks its outcome for the values.
Sample sample(const Plan& plan, const std::function<Values(const Outcome&)>& values);

// Fabrics that figures share. [RDRP §4.1]: 5,256 nodes; the small one has 1,056.
network::Scenario rdrp(Size size);
network::Scenario small_dragonfly();

// Worlds of arws-fig2 (the halo, W_max 256) and tok-rate (ITT, 64 outstanding), for a test that
// changes what ships in them.
Plan arws_world(std::uint64_t seed);
Plan tok_world(std::uint64_t seed);

// The makers.
Figure rdrp_fig1(Size size);
Figure rdrp_fig4(Size size);
Figure rdrp_fig5(Size size);
Figure routing_variants(Size size);
Figure budget_per_node(Size size);
Figure adaptive_budget(Size size);
Figure request_lane(Size size);
Figure lossy_links(Size size);
Figure workloads(Size size);
Figure ord_fig8a(Size size);
Figure ord_fig8b(Size size);
Figure ord_fig10(Size size);
Figure ord_fig11(Size size);
Figure arws_fig2(Size size);
Figure arws_fig2_time(Size size);
Figure arws_fig3(Size size);
Figure arws_fig3_memory(Size size);
Figure core_window(Size size);
Figure core_budget(Size size);
Figure core_steps(Size size);
Figure core_tokens(Size size);
Figure tok_rate(Size size);
Figure tok_cores(Size size);
Figure tok_wait(Size size);

}  // namespace weir::sim::figures
