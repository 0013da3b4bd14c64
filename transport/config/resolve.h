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

// What is said by files and the environment, the weakest first.
struct Sources {
  std::vector<Source> list;
  std::vector<std::string> warnings;  // nothing that keeps weir from running
};

// Reads them. `named` is the file that was named explicitly; if empty, WEIR_CONFIG may name one.
// Named `none`, nothing counts: what is measured must not depend on what somebody wrote somewhere.
Sources gather(Environment environment, std::string named, const std::string& system = system_file);

struct Value {
  std::string text;
  Layer layer = Layer::builtin;
  std::string where = "default";
};

struct Configuration {
  Settings settings;
  std::vector<Value> values;  // in the order of schema()
  std::string profile;        // the one in effect; empty if none is
  std::vector<Problem> problems;

  const Value& value(const Key& key) const { return values[index_of(key)]; }
};

// The values in effect, when the port is of `fabric`. All problems of all sources are in it; a
// value that is not acceptable is left out.
Configuration resolve(const Sources& sources, Fabric fabric);

}  // namespace weir::config
