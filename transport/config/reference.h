// The schema as YAML, for people.
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "transport/config/resolve.h"

namespace weir::config {

// conf/weir.yaml: every key with its meaning, what it accepts, the reason of its default, and a
// line to uncomment.
std::string reference_yaml();

// The values in effect as a file that sets them, with the origin of each in a comment.
std::string to_yaml(const Configuration& configuration);

}  // namespace weir::config
