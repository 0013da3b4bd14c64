#include "tools/between/differences.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace weir::tools::between {
namespace {

constexpr std::size_t most_named = 6;

}  // namespace

std::vector<Difference> differences(const std::vector<std::pair<std::string, Facts>>& hosts) {
  std::vector<Difference> all;
  for (const config::Key* key : config::by_importance()) {
    Difference found{key->name, key->alike, {}};
    for (const auto& [name, facts] : hosts) {
      const auto setting = facts.settings.find(key->name);
      // Another version of weir may not have it.
      const Setting here =
          setting == facts.settings.end() ? Setting{"no such key", facts.weir} : setting->second;
      auto same = std::find_if(found.values.begin(), found.values.end(),
                               [&](const Same& one) { return one.value == here.value; });
      if (same == found.values.end()) {
        same = found.values.insert(found.values.end(), Same{here.value, {}});
      }
      same->hosts.emplace_back(name, here.where);
    }
    if (found.values.size() < 2) continue;
    std::stable_sort(found.values.begin(), found.values.end(),
                     [](const Same& a, const Same& b) { return a.hosts.size() > b.hosts.size(); });
    all.push_back(std::move(found));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Difference& a, const Difference& b) { return a.alike && !b.alike; });
  return all;
}

std::string line_of(const Difference& difference) {
  std::string text = fmt::format("{:<20}", difference.key);
  for (std::size_t i = 0; i < difference.values.size(); ++i) {
    const Same& same = difference.values[i];
    text += fmt::format("{}{}:", i == 0 ? "  " : "; ", same.value);
    std::set<std::string> sources;
    for (std::size_t host = 0; host < same.hosts.size(); ++host) {
      sources.insert(same.hosts[host].second);
      if (host < most_named) text += (host == 0 ? " " : ", ") + same.hosts[host].first;
    }
    if (same.hosts.size() > most_named) {
      text += fmt::format(" and {} more", same.hosts.size() - most_named);
    }
    text += " (" + *sources.begin() + (sources.size() > 1 ? " and others)" : ")");
  }
  if (difference.alike) text += "  [has to be the same everywhere]";
  return text;
}

}  // namespace weir::tools::between
