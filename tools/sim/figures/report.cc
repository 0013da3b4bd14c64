#include "tools/sim/figures/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace weir::sim::figures {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "-";
  if (std::fabs(value) >= 100) return fmt::format("{:.0f}", value);
  if (value != 0 && std::fabs(value) < 0.1) return fmt::format("{:.4f}", value);
  return fmt::format("{:.3f}", value);
}

// What the rows have, in the order in which it comes up.
template <typename NamesOf>
std::vector<std::string> names_in(const Results& results, NamesOf names_of) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Results::Row& row : results.rows) names_of(row, add);
  return names;
}

std::string band_text(const Judged& judged) {
  if (!judged.band) return "-";
  return number(judged.band->low) + " .. " + number(judged.band->high);
}

const char* verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds: return "ok";
    case Verdict::outside: return "OUTSIDE";
    case Verdict::no_band: return "no band";
  }
  return "";
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string text_of(const Claim& claim) {
  return claim.of.empty() ? claim.is : claim.is + ", of " + claim.of;
}

std::string paper_of(const Claim& claim) {
  return claim.paper.empty() ? "not stated" : claim.paper;
}

constexpr const char* colours[] = {"#274d7d", "#c04020", "#3a8a4d", "#8a5aa8",
                                   "#c79a2a", "#3f9aa8", "#804020", "#6f7f8f"};

// Within '…', where a quote is written twice.
std::string quotable(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out;
}

std::string gnuplot_script(const Said& said, const Results& results) {
  std::string script =
      "set terminal svg size 560,360 font 'sans,11' background 'white'\n"
      "set key outside right\nset grid ytics lc rgb '#e0e0e0'\nset border 3\nset tics nomirror\n";
  script += fmt::format("set xlabel '{}'\nset ylabel '{}'\n", quotable(said.x_label),
                        quotable(said.y_label));
  const auto is_log = [&](char axis) { return said.log.find(axis) != std::string::npos; };
  script += is_log('x') ? "set logscale x 2\n" : "set offsets graph 0.03, graph 0.03, 0, 0\n";
  script += is_log('y') ? "set logscale y\n" : "set yrange [0:*]\n";
  const std::vector<std::string> series =
      names_in(results, [](const Results::Row& row, auto&& add) { add(row.series); });
  std::string plots;
  std::string data;
  for (std::size_t i = 0; i < series.size(); ++i) {
    std::map<double, double> points;
    for (const Results::Row& row : results.rows) {
      if (row.series == series[i]) points[row.x] = results.mean(row.series, row.x, said.y);
    }
    plots += fmt::format(
        "{}'-' using 1:2 with linespoints lc rgb '{}' dt {} pt 7 ps 0.5 title '{}'",
        i == 0 ? "" : ", ", colours[i % std::size(colours)], 1 + i / std::size(colours), series[i]);
    for (const auto& [x, y] : points) data += fmt::format("{} {}\n", x, y);
    data += "e\n";
  }
  return script + "plot " + plots + "\n" + data;
}

}  // namespace

Shown judge(const Figure& figure, const Results& results, Size size) {
  Shown shown{.figure = &figure, .results = &results, .claims = {}, .violations = {}};
  for (const auto& [name, ours] : numbers(figure, results, size)) {
    Judged judged{.name = name, .ours = ours, .claim = {}, .band = {}};
    const auto claim = std::find_if(figure.said.claims.begin(), figure.said.claims.end(),
                                    [&](const auto& said) { return said.first == name; });
    if (claim != figure.said.claims.end()) {
      judged.claim = claim->second;
      judged.band = judged.claim.band(size);
      if (!judged.band) continue;  // of the other size
      judged.verdict = judged.band->holds(ours) ? Verdict::holds : Verdict::outside;
    }
    shown.claims.push_back(judged);
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
  const std::vector<std::string> names = names_in(results, [](const Results::Row& row, auto&& add) {
    for (const auto& [name, value] : row.measured.values) add(name);
  });
  std::string csv = "series,x,seed";
  for (const std::string& name : names) csv += "," + name;
  csv += ",events,trace_hash,cpu_s,peak_mib,violation\n";
  for (const Results::Row& row : results.rows) {
    const Measured& measured = row.measured;
    csv += fmt::format("\"{}\",{},{}", row.series, row.x, row.seed);
    for (const std::string& name : names) {
      const double value = measured[name];
      csv += std::isnan(value) ? "," : fmt::format(",{:.6g}", value);
    }
    csv += fmt::format(",{},{:016x},{:.3f},{:.0f},\"{}\"\n", measured.events, measured.trace_hash,
                       measured.cpu_s, measured.peak_mib, measured.violation);
  }
  return csv;
}

nlohmann::ordered_json to_json(const Measured& measured) {
  nlohmann::ordered_json json;
  for (const auto& [name, value] : measured.values) json[name] = value;
  json.update({{"events", measured.events},
               {"trace_hash", fmt::format("{:016x}", measured.trace_hash)},
               {"cpu_s", measured.cpu_s},
               {"process_peak_mib", measured.peak_mib},
               {"violation", measured.violation}});
  return json;
}

std::string to_json(const Shown& shown) {
  const Said& said = shown.figure->said;
  nlohmann::ordered_json json = {{"figure", shown.figure->name},
                                 {"title", said.title},
                                 {"source", said.source},
                                 {"shows", said.shows},
                                 {"differs", said.differs},
                                 {"claims", nlohmann::json::array()},
                                 {"points", nlohmann::json::array()}};
  for (const Judged& judged : shown.claims) {
    nlohmann::ordered_json claim = {{"name", judged.name},
                                    {"text", text_of(judged.claim)},
                                    {"paper", paper_of(judged.claim)},
                                    {"ours", judged.ours},
                                    {"verdict", verdict_text(judged.verdict)}};
    if (judged.band) claim["band"] = {judged.band->low, judged.band->high};
    json["claims"].push_back(claim);
  }
  for (const Results::Row& row : shown.results->rows) {
    nlohmann::ordered_json point = {{"series", row.series}, {"x", row.x}, {"seed", row.seed}};
    point.update(to_json(row.measured));
    json["points"].push_back(point);
  }
  return json.dump(2) + "\n";
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
    text += fmt::format("  {:<7}  {:>9}  {:<17}  {}; paper: {}\n", verdict_text(judged.verdict),
                        number(judged.ours), band_text(judged),
                        judged.claim.is.empty() ? judged.name : text_of(judged.claim),
                        paper_of(judged.claim));
  }
  for (const std::string& violation : shown.violations) {
    text += "  BROKEN   " + violation + "\n";
  }
  return text;
}

std::string to_html(const std::vector<Shown>& figures, const std::vector<std::string>& pictures,
                    const std::string& how) {
  std::string html =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>weir sim</title><style>"
      "body{font:15px/1.5 sans-serif;max-width:76em;margin:2em auto;padding:0 1em;color:#203040}"
      "table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;border-bottom:1px solid "
      "#ddd;text-align:left}td.n{text-align:right;font-variant-numeric:tabular-nums}"
      ".row{display:flex;gap:2em;align-items:flex-start;flex-wrap:wrap}.row>div{flex:1;min-width:"
      "24em}.outside{color:#c04020;font-weight:bold}.ok{color:#3a8a4d}</style>"
      "<h1>weir sim: the papers' figures from the transport's own code</h1><p>" +
      escaped(how) +
      "</p><p>A band is what our own model is held to from one change to the next; that a number "
      "is within its band does not mean that it is the paper's.</p>";
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const Shown& shown = figures[i];
    const Said& said = shown.figure->said;
    html += fmt::format(
        "<h2 id=\"{0}\">{1}</h2><p><b>{2}</b> &middot; {0}</p><div class=\"row\">"
        "<div><p><b>What the paper shows.</b> {3}</p><p><b>What differs "
        "here.</b> {4}</p></div><div>{5}</div></div>",
        shown.figure->name, escaped(said.title), escaped(said.source), escaped(said.shows),
        escaped(said.differs),
        pictures[i].empty() ? "<i>no picture: gnuplot is not installed</i>"
                            : pictures[i].substr(pictures[i].find("<svg")));
    html += "<table><tr><th></th><th>paper</th><th>ours</th><th>band</th><th></th></tr>";
    for (const Judged& judged : shown.claims) {
      html += fmt::format(
          "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td>"
          "<td class=\"{}\">{}</td></tr>",
          escaped(text_of(judged.claim)), escaped(paper_of(judged.claim)), number(judged.ours),
          band_text(judged), judged.verdict == Verdict::outside ? "outside" : "ok",
          verdict_text(judged.verdict));
    }
    html += "</table>";
    for (const std::string& violation : shown.violations) {
      html += "<p class=\"outside\">" + escaped(violation) + "</p>";
    }
  }
  return html + "</html>\n";
}

}  // namespace weir::sim::figures
