// What an adaptive c has of the best constant of each of several fabrics, and one constant for all.
#include <algorithm>
#include <map>
#include <numeric>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {

Figure adaptive_budget(Size) {
  Figure figure;
  figure.claims = [](const Results& r) {
    std::map<std::string, double> best;  // of the constants, by fabric
    for (const Results::Row& row : r.rows) {
      if (row.x > 0) best[row.series] = std::max(best[row.series], r.mean(row.series, row.x));
    }
    std::map<double, std::vector<double>> parts;  // of that, by c
    for (const Results::Row& row : r.rows) {
      parts[row.x].push_back(r.mean(row.series, row.x) / best[row.series]);
    }
    std::map<bool, double> worst;  // by whether c is a constant: then the best one's
    std::map<bool, double> mean;   // the same; not of one and the same constant
    for (const auto& [c, part] : parts) {
      const double sum = std::accumulate(part.begin(), part.end(), 0.0);
      worst[c > 0] = std::max(worst[c > 0], *std::min_element(part.begin(), part.end()));
      mean[c > 0] = std::max(mean[c > 0], sum / static_cast<double>(part.size()));
    }
    return Values{{"adaptive-worst", worst[false]},
                  {"adaptive-mean", mean[false]},
                  {"constant-worst", worst[true]},
                  {"constant-mean", mean[true]}};
  };
  return figure;
}

}  // namespace weir::sim::figures
