// What figures say, claim, and hold each claim to: claims.json. A number is compared with something
// (`of`), or stands for itself; a band says where it may be from one change to the next. That it
// holds means that nothing has changed, not that the paper is right.
//
//   {"rdrp-fig1": {"figure": {"title": "Slow nodes …", "shows": ["a text,", "or its lines"]},
//                  "none": {"is": "throughput", "paper": "~ .59", "number": ["8x", 0],
//                           "full": [0.471, 0.523, 0.575]}}}
//
// A number is `number`, divided by `over` if there is that: each a term [series, x, value, how], or
// the most of several; an x that is [53, 11] is one in full and another one in smoke. A band is the
// least, the number that was seen, and the most; figures_test requires that each can fail.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weir::sim::figures {

enum class Size : std::uint8_t {
  full,   // the paper's
  smoke,  // a few points on a small fabric, for every change: seconds
};

struct Band {
  double low = 0;
  double seen = 0;
  double high = 0;
  bool holds(double value) const { return value >= low && value <= high; }
};

// What the points of a series gave at an x, which may be another one in smoke.
struct Term {
  std::string series;
  std::array<double, 2> x{};  // by Size
  std::string value = "throughput";
  std::string how = "mean";  // or median: of the seeds; or best: the most of the means over all x
};

struct Claim {
  std::string is;                            // what the number is
  std::string of;                            // compared with: the number is a ratio
  std::string shows;                         // then: more, less, same
  std::string paper;                         // its number, or a shape in words; empty: not stated
  std::array<std::optional<Band>, 2> bands;  // by Size: what is not claimed there has none
  std::vector<Term> number;                  // the most of these
  std::vector<Term> over;                    // divided by the most of these

  const std::optional<Band>& band(Size size) const { return bands[static_cast<int>(size)]; }
};

// A figure's part of the file.
struct Said {
  std::string title;
  std::string source;   // "[RDRP] Fig. 1"
  std::string shows;    // what the paper's figure shows, for the report
  std::string differs;  // how ours differs, and what is not reproduced
  std::string x_label;
  std::string y_label = "throughput, flits a node and cycle";
  std::string y = "throughput";  // which value is drawn
  std::string log;               // the axes that are logarithmic: "x", "y", "xy"
  std::vector<std::pair<std::string, Claim>> claims;  // by the name of the number
};

using Claims = std::map<std::string, Said>;  // by figure

// Throws std::runtime_error with the file's name if it is not as above.
Claims read_claims(const std::string& file);

}  // namespace weir::sim::figures
