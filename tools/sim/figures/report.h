// What is left of a run: for each figure its points as CSV and a picture; and
// one HTML page with what the papers show beside it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {

enum class Verdict : std::uint8_t { holds, outside, no_band };

struct Judged {
  std::string name;
  double ours = 0;
  Claim claim;
  std::optional<Band> band;
  Verdict verdict = Verdict::no_band;
};

struct Shown {
  const Figure* figure = nullptr;
  const Results* results = nullptr;
  std::vector<Judged> claims;
  std::vector<std::string> violations;
};

Shown judge(const Figure& figure, const Results& results, Size size);

std::string to_csv(const Results& results);
// What a run gave, and claims and points, for programs.
nlohmann::ordered_json to_json(const Measured& measured);
std::string to_json(const Shown& shown);
// Empty where there is no gnuplot.
std::string to_svg(const Figure& figure, const Results& results);
std::string to_html(const std::vector<Shown>& figures, const std::vector<std::string>& pictures,
                    const std::string& how);
// A table for the terminal.
std::string to_text(const Shown& shown);

}  // namespace weir::sim::figures
