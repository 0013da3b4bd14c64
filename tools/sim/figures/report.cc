#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/gnuplot.h"
#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "-";
  if (std::fabs(value) >= 100) return fmt::format("{:.0f}", value);
  return fmt::format("{:.2f}", value);
}

std::string text_of(const Claim& claim) {
  return claim.of.empty() ? claim.is : claim.is + ", of " + claim.of;
}

void add_new(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

std::string gnuplot_script(const Shown& shown) {
  const auto& [said, results, rows, faults] = shown;
  constexpr const char* colours[] = {"#274d7d", "#c04020", "#3a8a4d", "#8a5aa8",
                                     "#c79a2a", "#3f9aa8", "#804020", "#6f7f8f"};
  std::string script =
      "set terminal svg size 560,360 font 'sans,11' background 'white'\n"
      "set key outside right\nset grid ytics lc rgb '#e0e0e0'\nset border 3\nset tics nomirror\n";
  script += fmt::format("set xlabel '{}'\nset ylabel '{}'\n", tools::quotable(said.x_label),
                        tools::quotable(said.y_label));
  const auto is_log = [&](char axis) { return said.log.find(axis) != std::string::npos; };
  script += is_log('x') ? "set logscale x 2\n" : "set offsets graph 0.03, graph 0.03, 0, 0\n";
  script += is_log('y') ? "set logscale y\n" : "set yrange [0:*]\n";
  std::vector<std::string> series;
  for (const Results::Row& row : results.rows) add_new(series, row.series);
  std::string plots;
  std::string data;
  for (std::size_t i = 0; i < series.size(); ++i) {
    plots += fmt::format(
        "{}'-' using 1:2 with linespoints lc rgb '{}' dt {} pt 7 ps 0.5 title '{}'",
        i == 0 ? "" : ", ", colours[i % std::size(colours)], 1 + i / std::size(colours), series[i]);
    std::map<double, double> points;
    for (const Results::Row& row : results.rows) {
      if (row.series == series[i]) points[row.x] = results.mean(row.series, row.x, said.y);
    }
    for (const auto& [x, y] : points) data += fmt::format("{} {}\n", x, y);
    data += "e\n";
  }
  return script + "plot " + plots + "\n" + data;
}

}  // namespace

Shown::Shown(const Figure& figure, const Results& results) : figure(figure), results(results) {
  for (const Claim& claim : figure.claims) {
    const double ours = results.of(claim);
    if (std::isnan(ours)) continue;
    rows.push_back({&claim, ours, judge(claim, ours)});
    if (rows.back().verdict == claim.verdict) continue;
    faults.push_back(fmt::format("{}: {} is '{}', was '{}'", text_of(claim), number(ours),
                                 rows.back().verdict, claim.verdict));
  }
  for (const Results::Row& row : results.rows) {
    if (row.measured.violation.empty()) continue;
    faults.push_back(fmt::format("{}, {} {}, seed {}: {}", row.series, figure.x_label, row.x,
                                 row.seed, row.measured.violation));
  }
}

std::string to_csv(const Results& results) {
  std::vector<std::string> names;
  for (const Results::Row& row : results.rows) {
    for (const auto& [name, value] : row.measured.values) add_new(names, name);
  }
  std::string csv = "series,x,seed";
  for (const std::string& name : names) csv += "," + name;
  csv += ",events,trace_hash,cpu_s,violation\n";
  for (const Results::Row& row : results.rows) {
    const network::Measured& measured = row.measured;
    csv += fmt::format("\"{}\",{},{}", row.series, row.x, row.seed);
    for (const std::string& name : names) {
      const double value = measured[name];
      csv += std::isnan(value) ? "," : fmt::format(",{:.6g}", value);
    }
    csv += fmt::format(",{},{:016x},{:.3f},\"{}\"\n", measured.events, measured.trace_hash,
                       measured.cpu_s, measured.violation);
  }
  return csv;
}

bool draw(const Shown& shown, const std::string& file) {
  return tools::draw_by_gnuplot(gnuplot_script(shown), file);
}

std::string to_text(const Shown& shown) {
  std::string text =
      fmt::format("{}: {} ({})\n", shown.figure.name, shown.figure.title, shown.figure.source);
  for (const auto& [claim, ours, verdict] : shown.rows) {
    text += fmt::format("  {:<8}  {:>6}  {}{}{}\n", verdict, number(ours), text_of(*claim),
                        claim->paper.empty() ? "" : "; paper: ", claim->paper);
  }
  for (const std::string& fault : shown.faults) text += "  BROKEN    " + fault + "\n";
  return text;
}

std::string to_markdown(const std::vector<Shown>& figures, const std::string& how) {
  std::string text = "# The figures\n\nWritten by `weir sim reproduce`: " + how +
                     "\n\n|figure|claim|paper|ours|as claimed|\n|---|---|---|---|---|\n";
  std::string rest;
  for (const Shown& shown : figures) {
    const Figure& figure = shown.figure;
    for (const auto& [claim, ours, verdict] : shown.rows) {
      text += fmt::format("|{}|{}|{}|{}|{}|\n", figure.name, text_of(*claim),
                          claim->paper, number(ours), verdict);
    }
    rest += fmt::format("\n## {}\n\n{}, {} ([data](data/{}.csv)). {}\n\n![](data/{}.svg)\n",
                        figure.title, figure.name, figure.source, figure.name, figure.differs,
                        figure.name);
    for (const std::string& fault : shown.faults) rest += "\nBROKEN: " + fault + "\n";
  }
  return text + rest;
}

}  // namespace weir::sim::figures
