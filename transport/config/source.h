// Where values come from: the layers, from the weakest to the strongest, and what one of them says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::config {

enum class Layer : std::uint8_t {
  builtin,
  profile,
  system_file,
  user_file,
  named_file,   // by WEIR_CONFIG or btl_weir_config
  environment,  // WEIR_<KEY>
  parameter     // btl_weir_<key>, in all the ways Open MPI takes it
};

// Whether somebody set it for this very run: then silence about a mistake would be no kindness.
inline bool is_for_this_run(Layer layer) { return layer >= Layer::named_file; }

struct Entry {
  std::string key;
  std::string value;
  std::string where;  // "weir.yaml:3", "environment variable WEIR_MTU"
  int line = 0;       // of a file
};

struct Problem {
  Layer layer = Layer::builtin;
  std::string where;
  std::string key;  // empty if it is about no key, or `where` names it
  std::string reason;
  int line = 0;  // of a file
};

// "weir.yaml:3: window_max: '0' is out of range …", fit for a terminal whatever was in the file.
std::string to_text(const Problem& problem);

// What one place says.
struct Source {
  Layer layer = Layer::builtin;
  std::vector<Entry> entries;
  std::vector<Problem> problems;
};

}  // namespace weir::config
