// Pictures by gnuplot.
//
// Any thread.
#pragma once

#include <string>

namespace weir::tools {

// Within '…' of a script, where a quote is written twice.
std::string quotable(const std::string& text);

// Lets gnuplot play `script`, which sets no output, into `file`. False: it is not installed, or
// failed.
bool draw_by_gnuplot(const std::string& script, const std::string& file);

}  // namespace weir::tools
