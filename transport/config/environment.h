// The environment of a process: the WEIR_<KEY> variables, and the places of its files.
//
// Any thread, as long as no thread changes the environment.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/config/source.h"

namespace weir::config {

// "NAME=value", as in environ.
using Environment = std::span<const char* const>;

Environment own_environment();

// The value of `name`; empty if it is not set.
std::string_view value_of(Environment environment, std::string_view name);

// The WEIR_<KEY> variables that are set.
Source from_environment(Environment environment);

// A sentence for each WEIR_ variable that is not a key but resembles one.
std::vector<std::string> suspicious_variables(Environment environment);

inline constexpr const char* system_file = "/etc/weir/weir.yaml";

// $XDG_CONFIG_HOME/weir/weir.yaml or ~/.config/weir/weir.yaml; empty if there is no home.
std::string user_file(Environment environment);

}  // namespace weir::config
