#include "tools/sim/figures/claims.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace weir::sim::figures {
namespace {

std::optional<Band> band_of(const nlohmann::json& claim, const char* size) {
  if (!claim.contains(size)) return std::nullopt;
  const auto band = claim.at(size).get<std::array<double, 3>>();
  return Band{band[0], band[1], band[2]};
}

}  // namespace

std::string Claim::fault() const {
  if (is.empty() || (!bands[0] && !bands[1])) return "it says nothing";
  if (of.empty() != shows.empty()) return "a comparison says with what, and what it shows";
  if (!of.empty() && shows != "more" && shows != "less" && shows != "same") {
    return "a comparison shows more, less, or the same";
  }
  for (const std::optional<Band>& band : bands) {
    if (!band) continue;
    const auto [low, seen, high] = *band;
    if (!(low <= seen && seen <= high)) return "what was seen is not in the band";
    // Of what is counted and was not there at all, there is less than half a one.
    if (seen == 0 ? high >= 0.5 : low * Band::widest < seen || high > seen * Band::widest) {
      return "the band is too wide for what was seen";
    }
    if ((shows == "more" && low <= 1) || (shows == "less" && high >= 1)) {
      return "the band is not on the side of 1 that is claimed";
    }
    if (shows == "same" &&
        (low < 1 - Band::nothing || high > 1 + Band::nothing || low > 1 || high < 1)) {
      return "the band of nothing has something in it";
    }
  }
  return {};
}

Claims Claims::read(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file + ": cannot be read");
  Claims claims;
  try {
    const auto all = nlohmann::json::parse(stream);
    for (const auto& [figure, of_figure] : all.items()) {
      for (const auto& [name, claim] : of_figure.items()) {
        claims.claims_[figure][name] = {.is = claim.at("is"),
                                        .of = claim.value("of", ""),
                                        .shows = claim.value("shows", ""),
                                        .paper = claim.value("paper", ""),
                                        .bands = {band_of(claim, "full"), band_of(claim, "smoke")}};
      }
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(file + ": " + error.what());
  }
  return claims;
}

const Claim* Claims::find(const std::string& figure, const std::string& name) const {
  const auto of_figure = claims_.find(figure);
  if (of_figure == claims_.end()) return nullptr;
  const auto claim = of_figure->second.find(name);
  return claim == of_figure->second.end() ? nullptr : &claim->second;
}

}  // namespace weir::sim::figures
