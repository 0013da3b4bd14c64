// What our model is held to: for each claim of a figure the lowest and highest number that is still
// it. A band says that nothing has changed, not that the paper is right.
//
// bands.json: {"full": {"rdrp-fig1": {"none": [0.47, 0.55], …}, …}, "smoke": {…}}
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {

struct Band {
  double low = 0;
  double high = 0;
  bool holds(double value) const { return value >= low && value <= high; }
};

class Bands {
 public:
  // Throws std::runtime_error with the file's name if it is not as above.
  static Bands read(const std::string& file, Size size);

  std::optional<Band> of(const std::string& figure, const std::string& claim) const;
  const std::map<std::string, std::map<std::string, Band>>& entries() const { return bands_; }

 private:
  std::map<std::string, std::map<std::string, Band>> bands_;
};

}  // namespace weir::sim::figures
