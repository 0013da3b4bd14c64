// "Did you mean …?"
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "transport/config/schema.h"

namespace weir::config {

// The key whose name is closest to `name`, which may also be written as its MCA or environment
// variable; nullptr if none is close enough to be what was meant.
const Key* nearest_key(std::string_view name);

// Why `name` is no key, with the key that was probably meant.
std::string no_such_key(std::string_view name);

// How many letters have to be added, dropped, changed or swapped with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace weir::config
