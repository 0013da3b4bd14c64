// Numbers for the tables of `weir top`, short enough for a column; "-" for those there are none of.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

namespace weir::tools::top {

inline std::string short_number(double value, double step) {
  constexpr const char* prefixes[] = {"", "K", "M", "G", "T"};
  std::size_t i = 0;
  while (value >= 999.5 && i + 1 < std::size(prefixes)) {
    value /= step;
    ++i;
  }
  return fmt::format("{:.{}f}{}", value, i > 0 && value < 99.95 ? 1 : 0, prefixes[i]);
}

inline std::string bytes(std::optional<double> value) {
  return value ? short_number(*value, 1024) : "-";
}
inline std::string number(std::optional<double> value) {
  return value ? short_number(*value, 1000) : "-";
}

inline std::string short_time(std::uint64_t ns) {
  const double us = static_cast<double>(ns) / 1e3;
  return us < 999.5 ? fmt::format("{:.0f}us", us) : fmt::format("{:.0f}ms", us / 1e3);
}

}  // namespace weir::tools::top
