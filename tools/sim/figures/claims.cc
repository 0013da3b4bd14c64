#include "tools/sim/figures/claims.h"

#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

namespace weir::sim::figures {
namespace {

std::optional<Band> band_of(const nlohmann::ordered_json& claim, const char* size) {
  if (!claim.contains(size)) return std::nullopt;
  const auto band = claim.at(size).get<std::array<double, 3>>();
  return Band{band[0], band[1], band[2]};
}

Term term_of(const nlohmann::ordered_json& from) {
  Term term{.series = from.at(0), .x = {}};
  if (from.at(1).is_array()) {
    term.x = from.at(1);
  } else {
    term.x.fill(from.at(1));
  }
  if (from.size() > 2) term.value = from.at(2);
  if (from.size() > 3) term.how = from.at(3);
  return term;
}

// One, or several; none if there is no such key.
std::vector<Term> terms_of(const nlohmann::ordered_json& claim, const char* key) {
  std::vector<Term> terms;
  if (!claim.contains(key)) return terms;
  if (claim.at(key).at(0).is_string()) return {term_of(claim.at(key))};
  for (const nlohmann::ordered_json& term : claim.at(key)) terms.push_back(term_of(term));
  return terms;
}

void read_texts(const nlohmann::ordered_json& texts, Said& said) {
  const std::pair<const char*, std::string*> fields[] = {{"title", &said.title},
                                                         {"source", &said.source},
                                                         {"shows", &said.shows},
                                                         {"differs", &said.differs},
                                                         {"x_label", &said.x_label},
                                                         {"y_label", &said.y_label},
                                                         {"y", &said.y},
                                                         {"log", &said.log}};
  for (const auto& [name, field] : fields) {
    if (!texts.contains(name)) continue;
    const nlohmann::ordered_json& text = texts.at(name);
    *field = text.is_array()
                 ? fmt::format("{}", fmt::join(text.get<std::vector<std::string>>(), " "))
                 : text.get<std::string>();
  }
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

Claims read_claims(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file + ": cannot be read");
  Claims claims;
  try {
    const auto all = nlohmann::ordered_json::parse(stream);
    for (const auto& [figure, of_figure] : all.items()) {
      for (const auto& [name, said] : of_figure.items()) {
        if (name == "figure") {
          read_texts(said, claims[figure]);
        } else {
          claims[figure].claims.emplace_back(
              name, Claim{.is = said.at("is"),
                          .of = said.value("of", ""),
                          .shows = said.value("shows", ""),
                          .paper = said.value("paper", ""),
                          .bands = {band_of(said, "full"), band_of(said, "smoke")},
                          .number = terms_of(said, "number"),
                          .over = terms_of(said, "over")});
        }
      }
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(file + ": " + error.what());
  }
  return claims;
}

}  // namespace weir::sim::figures
