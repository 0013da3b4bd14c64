// What is left of a run: for each figure its points as CSV and a picture; and one report, in
// Markdown, with what the papers show beside it.
#pragma once

#include <string>
#include <vector>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {

struct Judged {
  Claim claim;
  Band band;
  double ours = 0;
  bool holds() const { return band.holds(ours); }
};

struct Shown {
  const Figure* figure = nullptr;
  std::vector<Judged> claims;
  std::vector<std::string> violations;

  bool holds() const;
};

Shown judge(const Figure& figure, const Results& results, Size size);

std::string to_csv(const Results& results);
// Empty where there is no gnuplot.
std::string to_svg(const Figure& figure, const Results& results);
// `how`: what it took.
std::string to_markdown(const std::vector<Shown>& figures, const std::string& how);
// A table for the terminal.
std::string to_text(const Shown& shown);

}  // namespace weir::sim::figures
