// Where values come from: the layers, from the weakest to the strongest, and the content of one.
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
  named_file,   // named by WEIR_CONFIG or btl_weir_config
  environment,  // WEIR_<KEY>
  parameter     // btl_weir_<key>, in all the ways that Open MPI accepts
};

// Whether somebody set it for this very run: then a mistake must not be passed over in silence.
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
  std::string key;  // empty if no key is concerned, or `where` names it
  std::string reason;
  int line = 0;  // of a file
};

// "weir.yaml:3: window_max: '0' is out of range …", safe for a terminal whatever the file contains.
std::string to_text(const Problem& problem);

// The content of one source.
struct Source {
  Layer layer = Layer::builtin;
  std::vector<Entry> entries;
  std::vector<Problem> problems;
};

}  // namespace weir::config
