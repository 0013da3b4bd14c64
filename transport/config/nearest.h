// "Did you mean …?"
//
// Pure functions; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "transport/config/schema.h"

namespace weir::config {

// The one of `names` that is closest to `name`; nullptr if none is close enough.
const char* nearest(std::string_view name, std::span<const char* const> names);

// The message for an unknown key. It names the key probably `meant`, or if that is nullptr, the
// command `list`, which lists all keys.
std::string no_such_key(const char* meant, const char* list);

// The key whose name is closest to `name`, which may be written as an MCA or environment variable;
// nullptr if none is close enough.
const Key* nearest_key(std::string_view name);

// The same for the transport's keys. For a key of an earlier version, it says why the key is gone.
std::string no_such_key(std::string_view name);

// How many letters have to be added, dropped, changed or swapped with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace weir::config
