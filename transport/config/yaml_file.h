// A configuration file: a flat YAML mapping of keys to values. Finds out what is written where;
// whether the keys exist and the values are acceptable is the schema's business.
//
// Any thread. Whatever the bytes are: problems, never an exception or a crash.
#pragma once

#include <string>

#include "transport/config/source.h"

namespace weir::config {

// A file larger than this is no configuration.
inline constexpr std::size_t max_file_bytes = 64 * 1024;

// `text` under the name `file`.
Source parse_yaml(const std::string& text, const std::string& file, Layer layer);

// A file that cannot be read is a problem, too.
Source read_yaml_file(const std::string& path, Layer layer);

}  // namespace weir::config
