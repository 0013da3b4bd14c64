// Defaults for one kind of fabric. The YAML files in conf/ are compiled in, for the plugin is one
// file and finds no others.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "transport/config/source.h"

namespace weir::config {

// What the chosen port turned out to be.
enum class Fabric : std::uint8_t { unknown, rxe, roce, infiniband };

// The name of its profile; empty for unknown.
std::string_view profile_of(Fabric fabric);

std::span<const std::string_view> profile_names();

// The text of conf/<name>.yaml; empty if there is no such profile.
std::string_view profile_text(std::string_view name);

// What the profile says; nothing if there is no such profile.
Source profile(std::string_view name);

// What all of them say, in the order of their names. Reads them anew: once for many keys.
struct ProfileEntry {
  std::string_view profile;
  Entry entry;
};
std::vector<ProfileEntry> profile_entries();

}  // namespace weir::config
