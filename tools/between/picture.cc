#include "tools/between/picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace weir::tools::between {
namespace {

// ---- what is shown
// --------------------------------------------------------------------------------

// How many times as slow as good ways are; nothing: it failed.
using Ratio = std::optional<double>;

struct Cell {
  Ratio ratio;
  std::string text;  // for who points at it
};

enum class Measure : std::uint8_t { latency, bandwidth };

// Of one direction: from the host of the line to that of the column.
Cell cell_of(const Way& way, bool back, Measure measure, const Good& good) {
  const std::string& from = back ? way.to : way.from;
  const std::string& to = back ? way.from : way.to;
  const auto& speed = back ? way.from_bytes_per_second : way.to_bytes_per_second;
  const std::string ends = from + " to " + to + ": ";
  if (measure == Measure::latency) {
    if (!way.latency_us) return {{}, ends + "failed"};
    return {std::max(1.0, *way.latency_us / good.latency_us),
            ends + fmt::format("{:.2f} us", *way.latency_us)};
  }
  if (!speed) return {{}, ends + "failed"};
  return {std::max(1.0, good.bytes_per_second / *speed), ends + rate_text(*speed)};
}

using Cells = std::map<std::pair<std::string, std::string>, Cell>;

Cells cells_of(const Picture& picture, Measure measure, const Good& good) {
  Cells cells;
  for (const Way& way : picture.ways) {
    cells[{way.from, way.to}] = cell_of(way, false, measure, good);
    cells[{way.to, way.from}] = cell_of(way, true, measure, good);
  }
  return cells;
}

// Of each host, the best of its ways: who is bad with everybody is bad, and so is who is lost.
std::map<std::string, Cell> best_of(const Picture& picture, const Good& good) {
  std::map<std::string, Cell> best;
  for (const Way& way : picture.ways) {
    const Ratio ratio = slowness(way, good);
    for (const std::string* host : {&way.from, &way.to}) {
      Cell& cell = best.try_emplace(*host).first->second;
      if (!cell.text.empty() && (!ratio || (cell.ratio && *cell.ratio <= *ratio))) continue;
      cell.ratio = ratio;
      cell.text = *host + (ratio ? fmt::format(": {:.2f} us, {} with {}", *way.latency_us,
                                               rate_text(std::min(*way.to_bytes_per_second,
                                                                  *way.from_bytes_per_second)),
                                               host == &way.from ? way.to : way.from)
                                 : ": failed");
    }
  }
  for (const Tested& host : picture.hosts) {
    if (!host.why_lost.empty()) best[host.name] = {{}, host.name + ": it does not answer"};
  }
  return best;
}

std::size_t widest_name(const std::vector<Tested>& hosts) {
  std::size_t widest = 0;
  for (const Tested& host : hosts) widest = std::max(widest, host.name.size());
  return widest;
}

// ---- the terminal
// ---------------------------------------------------------------------------------

struct Step {
  double up_to;
  const char* mark;
  const char* words;
  int colour;  // of 256
};
constexpr Step steps[] = {{1.15, ".", "as good ways", 71},
                          {odd_factor, "-", "up to 1.5 times as slow", 179},
                          {2.5, "o", "up to 2.5 times", 208},
                          {1e300, "O", "slower", 160}};
constexpr Step failed{0, "X", "failed", 196};

std::string marked(const Ratio& ratio, bool colour) {
  const Step& step = ratio ? *std::find_if(std::begin(steps), std::end(steps),
                                           [&](const Step& one) { return *ratio <= one.up_to; })
                           : failed;
  return colour ? fmt::format("\x1b[38;5;{}m{}\x1b[0m", step.colour, step.mark) : step.mark;
}

std::string legend(bool colour) {
  std::string text;
  for (const Step& step : steps) {
    text += marked(step.up_to, colour) + " " + step.words + "   ";
  }
  return text + marked({}, colour) + " " + failed.words + "\n";
}

constexpr std::size_t hosts_a_line = 50;

std::string good_text(const Good& good) {
  if (good.bytes_per_second <= 0) return "no way could be measured";
  return fmt::format("good ways: {:.2f} us, {}", good.latency_us, rate_text(good.bytes_per_second));
}

}  // namespace

std::string text_of(const Picture& picture, bool colour) {
  const Good good = good_of(picture.ways);
  const std::size_t width = widest_name(picture.hosts);
  std::string text;
  if (picture.all_pairs) {
    const Cells latency = cells_of(picture, Measure::latency, good);
    const Cells speed = cells_of(picture, Measure::bandwidth, good);
    text += fmt::format("{:<{}}  {:<{}}  {}\n", "", width, "latency", picture.hosts.size(),
                        "bandwidth");
    for (const Tested& from : picture.hosts) {
      text += fmt::format("{:<{}}", from.name, width);
      for (const Cells* cells : {&latency, &speed}) {
        text += "  ";
        for (const Tested& to : picture.hosts) {
          const auto found = cells->find({from.name, to.name});
          text += found == cells->end() ? " " : marked(found->second.ratio, colour);
        }
      }
      text += "\n";
    }
  } else {
    const auto best = best_of(picture, good);
    for (std::size_t i = 0, in_line = 0; i < picture.hosts.size(); ++i) {
      const Tested& host = picture.hosts[i];
      if (i > 0 && host.at != picture.hosts[i - 1].at) in_line = hosts_a_line;
      if (i == 0 || in_line == hosts_a_line) {
        text += fmt::format("{}{}{:<{}} ", i == 0 ? "" : "\n", host.at.empty() ? "" : host.at + " ",
                            host.name, width);
        in_line = 0;
      }
      if (in_line++ % 10 == 0) text += " ";
      const auto found = best.find(host.name);
      text += marked(found == best.end() ? Ratio{} : found->second.ratio, colour);
    }
    text += "\n";
  }
  return text + legend(colour) + good_text(good) + "\n";
}

// ---- SVG
// ------------------------------------------------------------------------------------------

namespace {

// As XML. What a launcher prints may be no UTF-8.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    if (static_cast<unsigned char>(c) >= 0x80) safe.back() = '?';
  }
  return safe;
}

// From green for as good ways, by yellow and orange, to a dark red for three times as slow.
std::string shade(const Ratio& ratio) {
  if (!ratio) return "#1a1a1a";
  constexpr int stops[][3] = {{199, 228, 190}, {254, 224, 139}, {253, 141, 60}, {128, 0, 38}};
  constexpr double ends[] = {1, odd_factor, 2, 3};
  const double at = std::clamp(*ratio, ends[0], ends[3]);
  std::size_t i = 0;
  while (i < 2 && at > ends[i + 1]) ++i;
  const double share = (at - ends[i]) / (ends[i + 1] - ends[i]);
  const auto part = [&](int which) {
    return static_cast<int>(
        std::lround(stops[i][which] + share * (stops[i + 1][which] - stops[i][which])));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", part(0), part(1), part(2));
}

class Svg {
 public:
  void cell(double x, double y, double size, const std::string& colour, const std::string& text,
            bool framed = false) {
    body_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"{}>"
        "<title>{}</title></rect>\n",
        x, y, size, size, colour, framed ? " stroke=\"#a50026\" stroke-width=\"2\"" : "",
        escaped(text));
  }
  void label(double x, double y, const std::string& text, const std::string& style = "",
             double turned = 0) {
    body_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>\n", x, y, style.empty() ? "" : " " + style,
        turned == 0 ? "" : fmt::format(" transform=\"rotate({} {:.1f} {:.1f})\"", turned, x, y),
        escaped(text));
  }
  std::string finish(double width, double height) const {
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
               "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
               width, height) +
           body_ + "</svg>\n";
  }

 private:
  std::string body_;
};

constexpr double edge = 24;      // around everything
constexpr double letter = 0.66;  // width of a character, in sizes of its font
constexpr double legend_cell = 14;
constexpr std::size_t most_listed = 20;

// The scale of colours; returns its height.
double draw_scale(Svg& svg, double x, double y, const Good& good) {
  svg.label(x, y + 11, good_text(good));
  constexpr double ratios[] = {1, 1.25, odd_factor, 2, 3};
  constexpr const char* words[] = {"as good", "1.25", "1.5", "2", "3 times as slow"};
  y += 22;
  for (std::size_t i = 0; i < std::size(ratios); ++i) {
    svg.cell(x, y, legend_cell, shade(ratios[i]), words[i]);
    svg.label(x + legend_cell + 5, y + 11, words[i]);
    x += i == 0 ? 80 : 58;
  }
  x += 68;
  svg.cell(x, y, legend_cell, shade({}), "failed");
  svg.label(x + legend_cell + 5, y + 11, "failed");
  return 22 + legend_cell;
}

double draw_odd(Svg& svg, double y, const std::vector<Odd>& odd) {
  const double top = y;
  for (std::size_t i = 0; i < odd.size() && i < most_listed; ++i) {
    const std::string& text = odd[i].finding.text;
    constexpr std::size_t most = 115;
    svg.label(edge, y += 17, odd[i].host, "font-weight=\"bold\" fill=\"#a50026\"");
    svg.label(edge + 12, y += 15,
              text.size() > most ? text.substr(0, text.rfind(' ', most)) + " ..." : text);
  }
  if (odd.size() > most_listed) {
    svg.label(edge, y += 17, fmt::format("and {} more", odd.size() - most_listed));
  }
  return y - top;
}

std::string title_of(const Picture& picture) {
  return fmt::format("weir doctor: {} hosts, {} pairs, {} odd host{}", picture.hosts.size(),
                     picture.ways.size(), picture.odd.size(), picture.odd.size() == 1 ? "" : "s");
}

}  // namespace

std::string svg_of(const Picture& picture) {
  const Good good = good_of(picture.ways);
  const double count = static_cast<double>(picture.hosts.size());
  const double names = static_cast<double>(widest_name(picture.hosts));
  std::set<std::string> odd;
  for (const Odd& one : picture.odd) odd.insert(one.host);
  Svg svg;
  svg.label(edge, edge + 10, title_of(picture), "font-size=\"16\" font-weight=\"bold\"");
  double y = edge + 34;
  y += draw_scale(svg, edge, y, good) + 20;
  double width = 820;
  const auto style_of = [&](const std::string& host, double size, const char* anchor) {
    return fmt::format("font-size=\"{:.1f}\" text-anchor=\"{}\"{}", size, anchor,
                       odd.contains(host) ? " font-weight=\"bold\" fill=\"#a50026\"" : "");
  };
  if (picture.all_pairs) {
    const double cell = std::clamp(560 / count, 7.0, 44.0);
    const double font = std::clamp(cell * 0.85, 6.0, 12.0);
    const double room = names * font * letter + 8;
    double x = edge;
    for (const Measure measure : {Measure::latency, Measure::bandwidth}) {
      const Cells cells = cells_of(picture, measure, good);
      const double left = x + room;
      const double top = y + 18 + room;
      svg.label(left, y + 12,
                measure == Measure::latency ? "latency"
                                            : "bandwidth, from the line's host to the column's",
                "font-weight=\"bold\"");
      for (std::size_t i = 0; i < picture.hosts.size(); ++i) {
        const std::string& from = picture.hosts[i].name;
        const double at = cell * static_cast<double>(i);
        svg.label(left - 4, top + at + cell / 2 + font * 0.35, from, style_of(from, font, "end"));
        svg.label(left + at + cell / 2 + font * 0.35, top - 4, from, style_of(from, font, "start"),
                  -90);
        for (std::size_t j = 0; j < picture.hosts.size(); ++j) {
          const auto found = cells.find({from, picture.hosts[j].name});
          if (found == cells.end()) {
            svg.cell(left + cell * static_cast<double>(j), top + at, cell - 0.6, "#f2f2f2",
                     i == j ? from : from + " to " + picture.hosts[j].name + ": not tried");
          } else {
            svg.cell(left + cell * static_cast<double>(j), top + at, cell - 0.6,
                     shade(found->second.ratio), found->second.text);
          }
        }
      }
      x = left + cell * count + 36;
    }
    width = std::max(width, x - 36 + edge);
    y += 18 + room + cell * count + 12;
  } else {
    constexpr double cell = 15;
    constexpr double font = 11;
    double room = names;
    for (const Tested& host : picture.hosts) {
      room = std::max(room, static_cast<double>(host.at.size()));
    }
    room = room * font * letter + 10;
    const auto best = best_of(picture, good);
    double in_line = 0;
    y -= cell + 3;
    for (std::size_t i = 0; i < picture.hosts.size(); ++i) {
      const Tested& host = picture.hosts[i];
      const bool next = i == 0 || host.at != picture.hosts[i - 1].at;
      if (next || in_line >= hosts_a_line) {
        y += cell + 3 + (next && i > 0 ? 4 : 0);
        in_line = 0;
        svg.label(edge + room - 6, y + font, next && !host.at.empty() ? host.at : host.name,
                  style_of("", font, "end"));
      }
      const double x = edge + room + in_line * cell + std::floor(in_line / 10) * 6;
      const auto found = best.find(host.name);
      const bool tried = found != best.end();
      svg.cell(x, y, cell - 1.5, tried ? shade(found->second.ratio) : "#f2f2f2",
               tried ? found->second.text : host.name + ": not tried", odd.contains(host.name));
      width = std::max(width, x + cell + edge);
      ++in_line;
    }
    y += cell + 12;
  }
  y += draw_odd(svg, y, picture.odd);
  return svg.finish(width, y + edge);
}

}  // namespace weir::tools::between
