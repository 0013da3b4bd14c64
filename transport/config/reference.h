// The schema as YAML, for people.
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "transport/config/resolve.h"

namespace weir::config {

// conf/weir.yaml: every key with its meaning, what it takes, the reason of its default, and a line
// to take the # away from.
std::string reference_yaml();

// The values in effect as a file that sets them, with where each comes from as a comment.
std::string to_yaml(const Configuration& configuration);

}  // namespace weir::config
