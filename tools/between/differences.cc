#include "tools/between/differences.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace weir::tools::between {
namespace {

constexpr std::size_t most_named = 6;

}  // namespace

std::optional<Difference> difference(const std::string& key, bool alike, const Said& said) {
  Difference found{key, alike, {}};
  for (const auto& [host, setting] : said) {
    auto same = std::ranges::find(found.values, setting.value, &Same::value);
    if (same == found.values.end()) {
      same = found.values.insert(found.values.end(), Same{setting.value, {}});
    }
    same->hosts.emplace_back(host, setting.where);
  }
  if (found.values.size() < 2) return {};
  std::stable_sort(found.values.begin(), found.values.end(),
                   [](const Same& a, const Same& b) { return a.hosts.size() > b.hosts.size(); });
  return found;
}

std::vector<Difference> hardware_differences(
    const std::vector<std::pair<std::string, Facts>>& hosts) {
  std::set<std::string> names;
  for (const auto& [host, facts] : hosts) {
    for (const auto& [name, value] : facts.hardware) names.insert(name);
  }
  std::vector<Difference> all;
  for (const std::string& name : names) {
    Said said;
    for (const auto& [host, facts] : hosts) {
      const auto value = facts.hardware.find(name);
      said.emplace_back(host,
                        Setting{value == facts.hardware.end() ? "not known" : value->second, {}});
    }
    if (auto found = difference(name, false, said)) all.push_back(std::move(*found));
  }
  return all;
}

std::vector<Difference> differences(const std::vector<std::pair<std::string, Facts>>& hosts) {
  std::vector<Difference> all;
  for (const config::Key* key : config::by_importance()) {
    Said said;
    for (const auto& [name, facts] : hosts) {
      const auto setting = facts.settings.find(key->name);
      // Another version of weir may not have it.
      said.emplace_back(name, setting == facts.settings.end() ? Setting{"no such key", facts.weir}
                                                              : setting->second);
    }
    if (auto found = difference(key->name, key->alike, said)) all.push_back(std::move(*found));
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
    if (!sources.begin()->empty()) {
      text += " (" + *sources.begin() + (sources.size() > 1 ? " and others)" : ")");
    }
  }
  if (difference.alike) text += "  [has to be the same everywhere]";
  return text;
}

Json to_json(const std::vector<Difference>& differences) {
  Json all = Json::array();
  for (const Difference& difference : differences) {
    Json values = Json::array();
    for (const Same& same : difference.values) {
      Json hosts = Json::object();
      for (const auto& [host, where] : same.hosts) hosts[host] = where;
      values.push_back({{"value", same.value}, {"hosts", hosts}});
    }
    all.push_back({{"key", difference.key}, {"alike", difference.alike}, {"values", values}});
  }
  return all;
}

}  // namespace weir::tools::between
