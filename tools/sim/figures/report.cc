#include "tools/sim/figures/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace weir::sim::figures {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "-";
  if (std::fabs(value) >= 100) return fmt::format("{:.0f}", value);
  if (value != 0 && std::fabs(value) < 0.1) return fmt::format("{:.4f}", value);
  return fmt::format("{:.3f}", value);
}

std::string band_text(const Band& band) { return number(band.low) + " .. " + number(band.high); }

std::string text_of(const Claim& claim) {
  return claim.of.empty() ? claim.is : claim.is + ", of " + claim.of;
}

std::string paper_of(const Claim& claim) {
  return claim.paper.empty() ? "not stated" : claim.paper;
}

void add_new(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// Within '…', where a quote is written twice.
std::string quotable(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out;
}

std::string gnuplot_script(const Said& said, const Results& results) {
  constexpr const char* colours[] = {"#274d7d", "#c04020", "#3a8a4d", "#8a5aa8",
                                     "#c79a2a", "#3f9aa8", "#804020", "#6f7f8f"};
  std::string script =
      "set terminal svg size 560,360 font 'sans,11' background 'white'\n"
      "set key outside right\nset grid ytics lc rgb '#e0e0e0'\nset border 3\nset tics nomirror\n";
  script += fmt::format("set xlabel '{}'\nset ylabel '{}'\n", quotable(said.x_label),
                        quotable(said.y_label));
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

bool Shown::holds() const {
  return violations.empty() && std::all_of(claims.begin(), claims.end(),
                                           [](const Judged& judged) { return judged.holds(); });
}

Shown judge(const Figure& figure, const Results& results, Size size) {
  Shown shown{.figure = &figure, .claims = {}, .violations = {}};
  for (const auto& [name, claim] : figure.said.claims) {
    if (!claim.band(size)) continue;  // of the other size
    const double over = claim.over.empty() ? 1 : results.most(claim.over, size);
    shown.claims.push_back({claim, *claim.band(size), results.most(claim.number, size) / over});
  }
  for (const Results::Row& row : results.rows) {
    if (row.measured.violation.empty()) continue;
    shown.violations.push_back(fmt::format("{}, {} {}, seed {}: {}", row.series,
                                           figure.said.x_label, row.x, row.seed,
                                           row.measured.violation));
  }
  return shown;
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
    const Measured& measured = row.measured;
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

std::string to_svg(const Figure& figure, const Results& results) {
  // A file for each way: a pipe both ways to one process would need a second thread.
  char name[] = "/tmp/weir-sim-XXXXXX";
  const int file = ::mkstemp(name);
  if (file < 0) return "";
  ::close(file);
  const std::string path = name;
  std::ofstream(path) << "set output '" << path << ".svg'\n"
                      << gnuplot_script(figure.said, results);
  const std::string command = "gnuplot " + path + " >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  std::ostringstream svg;
  if (status == 0) svg << std::ifstream(path + ".svg").rdbuf();
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::filesystem::remove(path + ".svg", ignored);
  return svg.str();
}

std::string to_text(const Shown& shown) {
  const Said& said = shown.figure->said;
  std::string text = fmt::format("{}: {} ({})\n", shown.figure->name, said.title, said.source);
  for (const Judged& judged : shown.claims) {
    text += fmt::format("  {:<7}  {:>9}  {:<17}  {}; paper: {}\n",
                        judged.holds() ? "ok" : "OUTSIDE", number(judged.ours),
                        band_text(judged.band), text_of(judged.claim), paper_of(judged.claim));
  }
  for (const std::string& violation : shown.violations) text += "  BROKEN   " + violation + "\n";
  return text;
}

std::string to_markdown(const std::vector<Shown>& figures, const std::string& how) {
  std::string text =
      "# The figures\n\nWritten by `weir sim reproduce`: " + how +
      "\n\nA band is what our own model is held to from one change to the next. That a number is "
      "within its\nband does not mean that it is the paper's.\n";
  for (const Shown& shown : figures) {
    const Said& said = shown.figure->said;
    text += fmt::format("\n## {}: {}\n\n{}. {} *What differs:* {}\n\n", shown.figure->name,
                        said.title, said.source, said.shows, said.differs);
    text += "| number | paper | ours | band |\n|---|---|---|---|\n";
    for (const Judged& judged : shown.claims) {
      text += fmt::format("| {} | {} | {}{} | {} |\n", text_of(judged.claim),
                          paper_of(judged.claim), number(judged.ours),
                          judged.holds() ? "" : " **OUTSIDE**", band_text(judged.band));
    }
    for (const std::string& violation : shown.violations) text += "\nBROKEN: " + violation + "\n";
  }
  return text;
}

}  // namespace weir::sim::figures
