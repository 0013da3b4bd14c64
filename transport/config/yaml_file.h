// A configuration file: a flat YAML mapping of keys to values. Only finds keys and values, with
// their lines; the schema checks them.
//
// Any thread. Any bytes are handled: they may cause problems, but no exception and no crash.
#pragma once

#include <string>

#include "transport/config/source.h"

namespace weir::config {

// A file larger than this is no configuration.
inline constexpr std::size_t max_file_bytes = 64 * 1024;

// Parses `text`. `file` is its name in problems.
Source parse_yaml(const std::string& text, const std::string& file, Layer layer);

// A file that cannot be read counts as a problem, too.
Source read_yaml_file(const std::string& path, Layer layer);

}  // namespace weir::config
