#include "transport/config/profiles.h"

#include <array>
#include <string>

#include "transport/config/yaml_file.h"

namespace weir::config {

// Made from conf/*.yaml by the build.
extern const std::string_view rxe_yaml;
extern const std::string_view roce_yaml;
extern const std::string_view infiniband_yaml;

namespace {
constexpr std::array<std::string_view, 3> names{"rxe", "roce", "infiniband"};
}

std::string_view profile_of(Fabric fabric) {
  switch (fabric) {
    case Fabric::rxe: return "rxe";
    case Fabric::roce: return "roce";
    case Fabric::infiniband: return "infiniband";
    case Fabric::unknown: break;
  }
  return {};
}

std::span<const std::string_view> profile_names() { return names; }

std::string_view profile_text(std::string_view name) {
  if (name == "rxe") return rxe_yaml;
  if (name == "roce") return roce_yaml;
  if (name == "infiniband") return infiniband_yaml;
  return {};
}

Source profile(std::string_view name) {
  const std::string_view text = profile_text(name);
  if (text.empty()) return {.layer = Layer::profile, .entries = {}, .problems = {}};
  const std::string where = "profile " + std::string(name);
  Source source = parse_yaml(std::string(text), where, Layer::profile);
  for (Entry& entry : source.entries) entry.where = where;  // its line numbers would help nobody
  return source;
}

std::vector<ProfileEntry> profile_entries() {
  std::vector<ProfileEntry> all;
  for (const std::string_view name : names) {
    for (const Entry& entry : profile(name).entries) all.push_back({name, entry});
  }
  return all;
}

}  // namespace weir::config
