// Which value wins: built-in default < profile < system file < user file < named file <
// environment < MCA parameter.
//
// Any thread.
#pragma once

#include <string>
#include <vector>

#include "transport/config/environment.h"
#include "transport/config/profiles.h"
#include "transport/config/schema.h"
#include "transport/config/source.h"

namespace weir::config {

// What files and the environment set, the weakest first.
struct Sources {
  std::vector<Source> list;
  std::vector<std::string> warnings;  // weir runs all the same
};

// Reads them. `named` is the file named explicitly; if empty, WEIR_CONFIG may name one. If the name
// is `none`, nothing counts: measurements must not depend on forgotten settings.
Sources gather(Environment environment, std::string named, const std::string& system = system_file);

struct Value {
  std::string text;
  Layer layer = Layer::builtin;
  std::string where = "default";
};

struct Configuration {
  Settings settings;
  std::vector<Value> values;  // in the order of schema()
  std::string profile;        // the profile in effect; empty if there is none
  std::vector<Problem> problems;

  const Value& value(const Key& key) const { return values[index_of(key)]; }
};

// The values in effect for a port of `fabric`. Contains all problems of all sources; a value that
// is not acceptable is left out.
Configuration resolve(const Sources& sources, Fabric fabric);

}  // namespace weir::config
