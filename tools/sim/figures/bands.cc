#include "tools/sim/figures/bands.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace weir::sim::figures {

Bands Bands::read(const std::string& file, Size size) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file + ": cannot be read");
  Bands bands;
  try {
    const auto all = nlohmann::json::parse(stream);
    for (const auto& [figure, claims] : all.at(size == Size::full ? "full" : "smoke").items()) {
      for (const auto& [claim, band] : claims.items()) {
        const Band read{band.at(0).get<double>(), band.at(1).get<double>()};
        if (read.low > read.high) {
          throw std::runtime_error(figure + ", " + claim + ": the band is empty");
        }
        bands.bands_[figure][claim] = read;
      }
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(file + ": " + error.what());
  }
  return bands;
}

std::optional<Band> Bands::of(const std::string& figure, const std::string& claim) const {
  const auto claims = bands_.find(figure);
  if (claims == bands_.end()) return std::nullopt;
  const auto band = claims->second.find(claim);
  if (band == claims->second.end()) return std::nullopt;
  return band->second;
}

}  // namespace weir::sim::figures
