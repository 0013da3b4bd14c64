// What people look at: all ways as coloured cells, on the terminal and as SVG.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "tools/between/odd.h"

namespace weir::tools::between {

struct Picture {
  std::vector<Tested> hosts;  // in the order shown; those of a switch side by side
  std::vector<Way> ways;
  std::vector<Odd> odd;
  bool all_pairs = false;  // hosts by hosts; else a cell for each host, of its best way
};

// A character for each cell, and what they mean.
std::string text_of(const Picture& picture, bool colour);

std::string svg_of(const Picture& picture);

}  // namespace weir::tools::between
