#include "transport/config/environment.h"

#include <unistd.h>

#include "transport/config/nearest.h"
#include "transport/config/schema.h"

namespace weir::config {
namespace {

constexpr std::string_view prefix = "WEIR_";

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

bool is_key(std::string_view name) {
  for (const Key& key : schema()) {
    if (environment_name(key) == name) return true;
  }
  return false;
}

}  // namespace

Environment own_environment() {
  if (environ == nullptr) return {};
  std::size_t count = 0;
  while (environ[count] != nullptr) ++count;
  return {environ, count};
}

std::string_view value_of(Environment environment, std::string_view name) {
  for (const std::string_view variable : environment) {
    if (name_of(variable) == name && variable.size() > name.size()) {
      return variable.substr(name.size() + 1);
    }
  }
  return {};
}

Source from_environment(Environment environment) {
  Source source;
  source.layer = Layer::environment;
  for (const Key& key : schema()) {
    const std::string name = environment_name(key);
    const std::string_view value = value_of(environment, name);
    if (value.empty()) continue;  // the same as not set
    source.entries.push_back({key.name, std::string(value), "environment variable " + name, 0});
  }
  return source;
}

std::vector<std::string> suspicious_variables(Environment environment) {
  std::vector<std::string> sentences;
  for (const std::string_view variable : environment) {
    const std::string_view name = name_of(variable);
    if (!name.starts_with(prefix) || name == "WEIR_CONFIG" || is_key(name)) continue;
    const Key* const meant = nearest_key(name);
    if (meant == nullptr) continue;
    sentences.push_back("environment variable " + std::string(name) +
                        " names no key and has no effect; did you mean " +
                        environment_name(*meant) + "?");
  }
  return sentences;
}

std::string user_file(Environment environment) {
  const std::string_view config = value_of(environment, "XDG_CONFIG_HOME");
  if (config.starts_with('/')) return std::string(config) + "/weir/weir.yaml";
  const std::string_view home = value_of(environment, "HOME");
  return home.empty() ? "" : std::string(home) + "/.config/weir/weir.yaml";
}

}  // namespace weir::config
