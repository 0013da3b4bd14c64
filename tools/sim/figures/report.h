// What is left of a run: for each figure its points as CSV and a picture; and one report, in
// Markdown, with what the papers say beside it.
#pragma once

#include <string>
#include <vector>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {

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
// Empty where there is no gnuplot.
std::string to_svg(const Shown& shown);
// A table for the terminal.
std::string to_text(const Shown& shown);
// `how`: what it took. `data`: the folder of the pictures and CSV.
std::string to_markdown(const std::vector<Shown>& figures, const std::string& how,
                        const std::string& data);

}  // namespace weir::sim::figures
