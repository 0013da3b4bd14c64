#include "tools/between/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace weir::tools::between {
namespace {

using doctor::Verdict;

// In the order in which they are done.
constexpr const char* columns[] = {"shell", "weir", "open mpi", "keys",       "path",   "port",
                                   "gid",   "mtu",  "rails",    "connection", "packet", "latency",
                                   "to",    "from", "deadline", "counters"};

using Rows = std::vector<std::vector<std::string>>;

// The worst of the findings of this name.
std::optional<Verdict> verdict_of(const Way& way, const std::string& name) {
  std::optional<Verdict> worst;
  for (const Finding& finding : way.findings) {
    if (finding.name == name && (!worst || finding.verdict > *worst)) worst = finding.verdict;
  }
  return worst;
}

std::string number_text(double number) {
  return number < 100 ? fmt::format("{:.1f}", number) : fmt::format("{:.0f}", number);
}

std::optional<double> number_of(const Way& way, const std::string& name) {
  if (name == "latency") return way.latency_us;
  const auto& speed = name == "to" ? way.to_bytes_per_second : way.from_bytes_per_second;
  if ((name == "to" || name == "from") && speed) return *speed / 1e6;
  return {};
}

std::string cell(const Way& way, const std::string& name) {
  const auto verdict = verdict_of(way, name);
  if (!verdict) return "-";
  if (*verdict == Verdict::fail) return "FAIL";
  if (const auto number = number_of(way, name)) {
    return number_text(*number) + (*verdict == Verdict::warn ? "!" : "");
  }
  return *verdict == Verdict::ok ? "ok" : "warn";
}

std::string aligned(const Rows& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += fmt::format("{:<{}}", row[i], widths[i] + (i + 1 < row.size() ? 2 : 0));
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string header_of(const std::string& column) {
  if (column == "latency") return "latency us";
  if (column == "to" || column == "from") return column + " MB/s";
  return column;
}

// `value` of the ways that have it: those that are far worse than the rest get a warning.
template <typename ValueOf>
void name_odd(std::vector<Way>& ways, const char* name, bool higher_is_worse, const char* what,
              ValueOf value) {
  std::vector<std::size_t> which;
  std::vector<double> values;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const std::optional<double> one = value(ways[i]);
    if (one) which.push_back(i);
    if (one) values.push_back(*one);
  }
  for (const std::size_t odd : odd_ones(values, higher_is_worse)) {
    Way& way = ways[which[odd]];
    way.findings.push_back(
        doctor::warn(name,
                     fmt::format("{} between {} and {} is far from that of the other hosts ({})",
                                 what, way.from, way.to, number_text(values[odd])),
                     fmt::format("compare {} with a good host: slot, cable, switch port, and other "
                                 "programs that run there",
                                 way.to)));
  }
}

}  // namespace

void name_odd_ones(std::vector<Way>& ways) {
  name_odd(ways, "latency", true, "the latency in us",
           [](const Way& way) { return number_of(way, "latency"); });
  for (const char* name : {"to", "from"}) {
    name_odd(ways, name, false, "the bandwidth in MB/s",
             [name](const Way& way) { return number_of(way, name); });
  }
}

std::string table_of(const std::vector<Way>& ways) {
  std::vector<std::string> shown;
  for (const char* column : columns) {
    if (std::any_of(ways.begin(), ways.end(),
                    [&](const Way& way) { return verdict_of(way, column).has_value(); })) {
      shown.push_back(column);
    }
  }
  Rows rows;
  auto& header = rows.emplace_back(std::vector<std::string>{"from", "to"});
  for (const std::string& column : shown) header.push_back(header_of(column));
  for (const Way& way : ways) {
    std::vector<std::string> row{way.from, way.to};
    for (const std::string& column : shown) row.push_back(cell(way, column));
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

std::string matrix_of(const std::vector<Way>& ways, const std::vector<std::string>& hosts) {
  std::map<std::pair<std::string, std::string>, std::pair<std::string, std::string>> cells;
  for (const Way& way : ways) {
    const std::string latency = cell(way, "latency");
    cells[{way.from, way.to}] = {latency, cell(way, "to")};
    cells[{way.to, way.from}] = {latency, cell(way, "from")};
  }
  const auto square = [&](const std::string& title, bool speeds) {
    Rows rows{{title}};
    for (const std::string& host : hosts) rows[0].push_back(host);
    for (const std::string& from : hosts) {
      std::vector<std::string> row{from};
      for (const std::string& to : hosts) {
        const auto found = cells.find({from, to});
        row.push_back(found == cells.end() ? ""
                      : speeds             ? found->second.second
                                           : found->second.first);
      }
      rows.push_back(std::move(row));
    }
    return aligned(rows);
  };
  return square("us", false) + "\n" + square("MB/s", true);
}

std::string progress_text(std::size_t done, std::size_t all, double spent_s) {
  std::string text = fmt::format("{} of {} pairs", done, all);
  if (done > 0) {
    text += fmt::format(", {:.0f} s left",
                        spent_s / static_cast<double>(done) * static_cast<double>(all - done));
  }
  return text;
}

}  // namespace weir::tools::between
