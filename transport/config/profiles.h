// Defaults for one kind of fabric. The YAML files in conf/ are compiled in, because the plugin is a
// single file and finds no others.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "transport/config/source.h"

namespace weir::config {

// The kind of the chosen port.
enum class Fabric : std::uint8_t { unknown, rxe, roce, infiniband };

// The name of its profile; empty for unknown.
std::string_view profile_of(Fabric fabric);

std::span<const std::string_view> profile_names();

// The text of conf/<name>.yaml; empty if there is no such profile.
std::string_view profile_text(std::string_view name);

// The values of the profile; none if there is no such profile.
Source profile(std::string_view name);

// The values of all profiles, in the order of their names. Reads all anew: call once for many keys.
struct ProfileEntry {
  std::string_view profile;
  Entry entry;
};
std::vector<ProfileEntry> profile_entries();

}  // namespace weir::config
