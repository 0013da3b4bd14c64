#include "transport/config/caps.h"

#include <string_view>

namespace weir::config {
namespace {

const Key& key_of(std::size_t cap) { return *find_key(cap_names[cap]); }

}  // namespace

std::optional<std::size_t> cap_of(const Key& key) {
  for (std::size_t i = 0; i < cap_names.size(); ++i) {
    if (std::string_view(key.name) == cap_names[i]) return i;
  }
  return std::nullopt;
}

Caps caps_of(const Settings& settings) {
  Caps caps;
  for (std::size_t i = 0; i < caps.size(); ++i) caps[i] = settings.*key_of(i).number;
  return caps;
}

bool set_caps(Settings& settings, const Caps& caps, std::string& reason) {
  Settings changed = settings;
  for (std::size_t i = 0; i < caps.size(); ++i) {
    std::string problem;
    if (set(changed, key_of(i), cap_text(i, caps[i]), problem)) continue;
    reason = std::string(cap_names[i]) + ": " + problem;
    return false;
  }
  if (const auto found = check(changed); !found.empty()) {
    reason = found.front().reason;
    return false;
  }
  settings = changed;
  return true;
}

std::string cap_text(std::size_t cap, std::int64_t value) {
  Settings one;
  one.*key_of(cap).number = value;
  return get(one, key_of(cap));
}

std::string changes(const Caps& before, const Caps& after) {
  std::string text;
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (before[i] == after[i]) continue;
    text += (text.empty() ? "" : ", ") + std::string(cap_names[i]) + " from " +
            cap_text(i, before[i]) + " to " + cap_text(i, after[i]);
  }
  return text;
}

}  // namespace weir::config
