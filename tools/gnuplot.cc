#include "tools/gnuplot.h"

#include <cstdlib>
#include <regex>

namespace weir::tools {

std::string quotable(const std::string& text) {
  return std::regex_replace(text, std::regex("'"), "''");
}

bool draw_by_gnuplot(const std::string& script, const std::string& file) {
  const std::string whole = "set output '" + quotable(file) + "'\n" + script;
  return std::system(("gnuplot >/dev/null 2>&1 <<'END'\n" + whole + "END\n").c_str()) == 0;
}

}  // namespace weir::tools
