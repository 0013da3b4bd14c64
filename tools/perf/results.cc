#include "tools/perf/results.h"

#include <fmt/core.h>

#include <algorithm>

#include "tools/gnuplot.h"
#include "transport/config/units.h"

namespace weir::tools::perf {
namespace {

template <typename Of>
double median(const std::vector<std::pair<Sample, Sample>>& samples, Of of) {
  std::vector<double> values;
  for (const auto& [weir, verbs] : samples) values.push_back(of(weir, verbs));
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double value(const Test& test, const Sample& sample) {
  return test.is_latency() ? sample.us : sample.per_second;
}

// Four characters or a few more, whatever its size.
std::string number(double value) {
  return value < 0.1   ? fmt::format("{:.3f}", value)
         : value < 10  ? fmt::format("{:.2f}", value)
         : value < 100 ? fmt::format("{:.1f}", value)
         : value < 1e5 ? fmt::format("{:.0f}", value)
                       : fmt::format("{:.0f}k", value / 1e3);
}

std::string rate(double per_second) {
  return per_second < 1e4   ? number(per_second)
         : per_second < 1e7 ? fmt::format("{:.0f}k", per_second / 1e3)
                            : fmt::format("{:.1f}M", per_second / 1e6);
}

// Columns of one table that belong together.
struct Block {
  const char* title;
  const Test* test;
  std::vector<const char*> columns;
};

std::vector<std::string> cells(const Block& block, const Row* row) {
  std::vector<std::string> all;
  for (const std::string column : block.columns) {
    if (row == nullptr) {
      all.emplace_back("-");
    } else if (column == "ratio") {
      all.push_back(fmt::format("{:.2f}", row->ratio));
    } else if (column == "99 %") {
      all.push_back(number(row->weir.us_99));
    } else if (column == "each/s") {
      all.push_back(rate(row->weir.per_second));
    } else {
      const Sample& sample = column == "weir" ? row->weir : row->verbs;
      all.push_back(number(block.test->is_latency() ? sample.us : row->mb_per_second(sample)));
    }
  }
  return all;
}

const Row* find(const std::vector<Row>& rows, const Test* test, std::uint64_t bytes) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
    return row.test == test && row.bytes == bytes;
  });
  return found == rows.end() ? nullptr : &*found;
}

std::string table(const std::vector<Row>& rows, const std::string& title,
                  const std::vector<Block>& all) {
  std::vector<Block> blocks;
  std::vector<std::uint64_t> sizes;
  for (const Block& block : all) {
    for (const Row& row : rows) {
      if (row.test != block.test) continue;
      if (blocks.empty() || blocks.back().test != block.test) blocks.push_back(block);
      sizes.push_back(row.bytes);
    }
  }
  if (blocks.empty()) return {};
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());

  std::string text = title + "\n";
  std::string titles = fmt::format("{:>7}", ""), names = fmt::format("{:>7}", "size");
  for (const Block& block : blocks) {
    std::string line;
    for (const char* column : block.columns) line += fmt::format("{:>7}", column);
    titles += fmt::format("  {:>{}}", block.title, line.size());
    names += "  " + line;
  }
  text += titles + "\n" + names + "\n";
  for (const std::uint64_t bytes : sizes) {
    text += fmt::format("{:>7}", size_text(bytes));
    for (const Block& block : blocks) {
      text += "  ";
      for (const std::string& cell : cells(block, find(rows, block.test, bytes))) {
        text += fmt::format("{:>7}", cell);
      }
    }
    text += "\n";
  }
  return text + "\n";
}

between::Json sample_json(const Row& row, const Sample& sample) {
  if (row.test->is_latency()) return {{"us", sample.us}, {"us_99", sample.us_99}};
  return {{"per_second", sample.per_second}, {"mb_per_second", row.mb_per_second(sample)}};
}

}  // namespace

std::string Test::text() const {
  const std::string what = is_send()  ? "messages"
                           : is_add() ? "fetch-and-adds"
                                      : std::string(operation) + "s";
  return (is_latency() ? "latency of " : "stream of ") + what + (is_both() ? " both ways" : "");
}

std::vector<Row> Results::rows() const {
  std::vector<Row> rows;
  for (const auto& [key, samples] : samples_) {
    const Test& test = tests[key.first];
    Row row;
    row.test = &test;
    row.bytes = key.second;
    row.repeats = samples.size();
    for (auto field : {&Sample::us, &Sample::us_99, &Sample::per_second}) {
      row.weir.*field =
          median(samples, [&](const Sample& weir, const Sample&) { return weir.*field; });
      row.verbs.*field =
          median(samples, [&](const Sample&, const Sample& verbs) { return verbs.*field; });
    }
    row.ratio = median(samples, [&](const Sample& weir, const Sample& verbs) {
      const double beside = value(test, verbs);
      return beside > 0 ? value(test, weir) / beside : 0;
    });
    rows.push_back(row);
  }
  return rows;
}

std::string size_text(std::uint64_t bytes) {
  return config::format_size(static_cast<std::int64_t>(bytes));
}

std::string to_text(const std::vector<Row>& rows, const About& about) {
  std::string text =
      fmt::format("{} and {}, {:.0f} s{}; ratio: weir / verbs alone\n\n", about.here, about.there,
                  about.seconds, about.checked ? ", all bytes looked at" : "");
  text += table(rows, "latency, us: half a round trip of messages; one put or get until it is over",
                {{"messages", &tests[0], {"weir", "99 %", "verbs", "ratio"}},
                 {"puts", &tests[3], {"weir", "99 %", "verbs", "ratio"}},
                 {"gets", &tests[5], {"weir", "99 %", "verbs", "ratio"}}});
  text += table(rows, "streams, MB/s",
                {{"messages", &tests[1], {"each/s", "weir", "verbs", "ratio"}},
                 {"both ways", &tests[2], {"weir", "verbs", "ratio"}},
                 {"puts", &tests[4], {"weir", "verbs", "ratio"}},
                 {"gets", &tests[6], {"weir", "verbs", "ratio"}}});
  for (const Row& row : rows) {
    if (!row.test->is_add()) continue;
    const bool latency = row.test->is_latency();
    const auto shown = [&](const Sample& sample) {
      return latency ? number(sample.us) + " us" : rate(sample.per_second) + "/s";
    };
    text += fmt::format("{} of 8B: weir {}{}, verbs {}, ratio {:.2f}\n", row.test->text(),
                        shown(row.weir),
                        latency ? fmt::format(" (99 %: {})", number(row.weir.us_99)) : "",
                        shown(row.verbs), row.ratio);
  }
  if (!about.atomics) text += "no fetch-and-adds: a port has no atomics\n";
  return text;
}

between::Json to_json(const std::vector<Row>& rows, const About& about) {
  between::Json all = between::Json::array();
  for (const Row& row : rows) {
    all.push_back({{"operation", row.test->operation},
                   {"kind", row.test->kind},
                   {"bytes", row.bytes},
                   {"weir", sample_json(row, row.weir)},
                   {"verbs", sample_json(row, row.verbs)},
                   {"ratio", row.ratio},
                   {"repeats", row.repeats}});
  }
  return {{"version", WEIR_VERSION},
          {"here", about.here},
          {"there", about.there},
          {"seconds", about.seconds},
          {"checked", about.checked},
          {"atomics", about.atomics},
          {"results", all}};
}

std::string to_csv(const std::vector<Row>& rows) {
  std::string text =
      "operation,kind,bytes,weir_us,weir_us_99,verbs_us,verbs_us_99,weir_per_second,"
      "verbs_per_second,weir_mb_per_second,verbs_mb_per_second,ratio,repeats\n";
  for (const Row& row : rows) {
    text += fmt::format("{},{},{},", row.test->operation, row.test->kind, row.bytes);
    if (row.test->is_latency()) {
      text += fmt::format("{:.6g},{:.6g},{:.6g},{:.6g},,,,", row.weir.us, row.weir.us_99,
                          row.verbs.us, row.verbs.us_99);
    } else {
      text +=
          fmt::format(",,,,{:.6g},{:.6g},{:.6g},{:.6g}", row.weir.per_second, row.verbs.per_second,
                      row.mb_per_second(row.weir), row.mb_per_second(row.verbs));
    }
    text += fmt::format(",{:.4g},{}\n", row.ratio, row.repeats);
  }
  return text;
}

std::string to_gnuplot(const std::vector<Row>& rows, const About& about) {
  std::string script = "set terminal svg size 960,420 font 'sans,10' background 'white'\n";
  script += "set logscale xy\nset grid lc rgb '#e0e0e0'\nset border 3\nset tics nomirror\n";
  script += "set xtics ('1' 1, '32' 32, '1K' 1024, '32K' 32768, '1M' 1048576, '64M' 67108864)\n";
  script += "set key top left\nset multiplot layout 1,2 title '" +
            quotable(about.here + " and " + about.there) + "'\n";
  constexpr const char* colours[] = {"#274d7d", "#c04020", "#3a8a4d", "#8a5aa8"};
  for (const bool latency : {true, false}) {
    std::string plots, data;
    std::size_t colour = 0;
    for (const Test& test : tests) {
      if (test.is_latency() != latency || test.is_add()) continue;
      for (const bool weir : {true, false}) {
        std::string points;
        for (const Row& row : rows) {
          if (row.test != &test) continue;
          const Sample& sample = weir ? row.weir : row.verbs;
          points +=
              fmt::format("{} {}\n", row.bytes, latency ? sample.us : row.mb_per_second(sample));
        }
        if (points.empty()) continue;
        plots +=
            fmt::format("{}'-' using 1:2 with lines lw 1.5 lc rgb '{}' dt {} title '{}{}'",
                        plots.empty() ? "" : ", ", colours[colour], weir ? 1 : 2,
                        test.text().substr(test.text().find(" of ") + 4), weir ? "" : ", verbs");
        data += points + "e\n";
      }
      ++colour;
    }
    if (plots.empty()) continue;
    script += fmt::format("set title '{}'\nplot {}\n{}", latency ? "latency, us" : "streams, MB/s",
                          plots, data);
  }
  return script + "unset multiplot\n";
}

}  // namespace weir::tools::perf
