#include "transport/config/resolve.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/config/nearest.h"
#include "transport/config/yaml_file.h"

namespace weir::config {
namespace {

// A variable's name already shows the key.
std::string key_to_show(Layer layer, const std::string& key) {
  return layer >= Layer::environment ? "" : key;
}

// The strongest acceptable value for the profile; "auto" if there is none.
std::string wanted_profile(const Sources& sources) {
  const Key& key = *find_key("profile");
  Settings settings = defaults();
  std::string ignored;
  for (const Source& source : sources.list) {
    for (const Entry& entry : source.entries) {
      if (entry.key == key.name) set(settings, key, entry.value, ignored);
    }
  }
  return settings.profile;
}

void apply(const Source& source, Configuration& into) {
  const auto first = static_cast<std::ptrdiff_t>(into.problems.size());
  into.problems.insert(into.problems.end(), source.problems.begin(), source.problems.end());
  const auto fault = [&](const Entry& entry, const std::string& reason) {
    into.problems.push_back(
        {source.layer, entry.where, key_to_show(source.layer, entry.key), reason, entry.line});
  };
  for (const Entry& entry : source.entries) {
    const Key* const key = find_key(entry.key);
    std::string reason;
    if (key == nullptr) {
      fault(entry, no_such_key(entry.key));
    } else if (!set(into.settings, *key, entry.value, reason)) {
      fault(entry, reason);
    } else {
      into.values[index_of(*key)] = {entry.value, source.layer, entry.where};
    }
  }
  std::stable_sort(into.problems.begin() + first, into.problems.end(),
                   [](const Problem& a, const Problem& b) { return a.line < b.line; });
}

// Of the keys that contradict each other, the user should look at the one set last.
Problem blame(const Contradiction& contradiction, const Configuration& configuration) {
  const Key* const key = *std::max_element(
      contradiction.keys.begin(), contradiction.keys.end(), [&](const Key* a, const Key* b) {
        return configuration.value(*a).layer < configuration.value(*b).layer;
      });
  const Value& value = configuration.value(*key);
  return {value.layer, value.where, key_to_show(value.layer, key->name), contradiction.reason, 0};
}

}  // namespace

Sources gather(Environment environment, std::string named, const std::string& system) {
  Sources sources;
  if (named.empty()) named = value_of(environment, "WEIR_CONFIG");
  if (named == "none") return sources;
  // Files that nobody named may be missing; and an unreadable one is no reason for a job to end.
  const auto read_usual = [&](const std::string& path, Layer layer) {
    if (path.empty()) return;
    if (access(path.c_str(), R_OK) == 0) {
      sources.list.push_back(read_yaml_file(path, layer));
    } else if (errno != ENOENT && errno != ENOTDIR) {
      sources.warnings.push_back(
          path + " has no effect, because it cannot be read: " + std::strerror(errno));
    }
  };
  read_usual(system, Layer::system_file);
  read_usual(user_file(environment), Layer::user_file);
  if (!named.empty()) sources.list.push_back(read_yaml_file(named, Layer::named_file));
  sources.list.push_back(from_environment(environment));
  for (std::string& warning : suspicious_variables(environment)) {
    sources.warnings.push_back(std::move(warning));
  }
  return sources;
}

Configuration resolve(const Sources& sources, Fabric fabric) {
  Configuration result;
  result.settings = defaults();
  for (const Key& key : schema()) {
    result.values.push_back({key.fallback, Layer::builtin, "default"});
  }
  result.profile = wanted_profile(sources);
  if (result.profile == "auto") result.profile = profile_of(fabric);
  apply(profile(result.profile), result);
  for (const Source& source : sources.list) apply(source, result);
  for (const Contradiction& contradiction : check(result.settings)) {
    result.problems.push_back(blame(contradiction, result));
  }
  return result;
}

}  // namespace weir::config
