// The caps that may change in a running process, as the settings that they are.
//
// Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "base/caps.h"
#include "transport/config/schema.h"
#include "transport/config/settings.h"

namespace weir::config {

// The place of the key in Caps; nothing if it cannot change while a process runs.
std::optional<std::size_t> cap_of(const Key& key);

Caps caps_of(const Settings& settings);

// Sets them, with all the checks of a file. False, with the reason for people, and nothing changes,
// if they are not acceptable.
bool set_caps(Settings& settings, const Caps& caps, std::string& reason);

// A cap as text that `set` can read; any number, for people.
std::string cap_text(std::size_t cap, std::int64_t value);

// "reads_max from auto to 1, tokens from 64 to 8".
std::string changes(const Caps& before, const Caps& after);

}  // namespace weir::config
