#include "tools/sim/figures/claims.h"

#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace weir::sim::figures {
namespace {

using Json = nlohmann::ordered_json;

std::optional<Band> band_of(const Json& claim, const char* size) {
  if (!claim.contains(size)) return std::nullopt;
  const auto band = claim.at(size).get<std::array<double, 3>>();
  return Band{band[0], band[1], band[2]};
}

// One, or several; none if there is no such key.
std::vector<Term> terms_of(const Json& claim, const char* key) {
  std::vector<Term> terms;
  if (!claim.contains(key)) return terms;
  const bool one = claim.at(key).at(0).is_string();
  for (const Json& from : one ? Json::array({claim.at(key)}) : claim.at(key)) {
    Term& term = terms.emplace_back();
    term.series = from.at(0);
    if (from.at(1).is_array()) {
      term.x = from.at(1);
    } else {
      term.x.fill(from.at(1));
    }
    if (from.size() > 2) term.value = from.at(2);
    if (from.size() > 3) term.how = from.at(3);
  }
  return terms;
}

void read_texts(const Json& texts, Said& said) {
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
    const Json& text = texts.at(name);
    *field = text.is_array()
                 ? fmt::format("{}", fmt::join(text.get<std::vector<std::string>>(), " "))
                 : text.get<std::string>();
  }
}

}  // namespace

Claims read_claims(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file + ": cannot be read");
  Claims claims;
  try {
    const Json all = Json::parse(stream);
    for (const auto& [figure, of_figure] : all.items()) {
      for (const auto& [name, said] : of_figure.items()) {
        if (name == "figure") {
          read_texts(said, claims[figure]);
          continue;
        }
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
  } catch (const std::exception& error) {
    throw std::runtime_error(file + ": " + error.what());
  }
  return claims;
}

}  // namespace weir::sim::figures
