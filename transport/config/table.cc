#include "transport/config/table.h"

#include <algorithm>

#include "transport/config/units.h"

namespace weir::config {
namespace {

constexpr std::int64_t most_value = std::int64_t{1} << 31;
constexpr std::int64_t most_delay_ns = 1'000'000'000;  // beyond this a job only seems to hang

bool parse_entry(std::string_view item, TableOf kind, TableEntry& entry, std::string& error) {
  const std::string shown = "'" + std::string(item) + "'";
  if (const std::size_t at = item.find('@');
      (at != item.npos) != (kind == TableOf::counts_by_cores)) {
    error = shown + (at == item.npos ? " has no CORES@ in front"
                                     : " has CORES@ in front, which this key does not take");
    return false;
  } else if (at != item.npos) {
    if (!parse_count(trimmed(item.substr(0, at)), entry.cores, error)) return false;
    if (entry.cores < 1 || entry.cores > 65536) {
      error = shown + ": cores from 1 to 65536";
      return false;
    }
    item.remove_prefix(at + 1);
  }
  const std::size_t sign = item.find('=');
  if (sign == item.npos) {
    error = shown + " has no '='";
    return false;
  }
  if (!parse_size(trimmed(item.substr(0, sign)), entry.bytes, error)) return false;
  const std::string_view value = trimmed(item.substr(sign + 1));
  const bool good = kind == TableOf::durations ? parse_duration(value, entry.value, error)
                                               : parse_count(value, entry.value, error);
  if (!good) return false;
  if (entry.bytes < 0 || entry.value < 0 ||
      entry.value > (kind == TableOf::durations ? most_delay_ns : most_value)) {
    error = shown + " is out of range";
    return false;
  }
  return true;
}

}  // namespace

bool parse_table(std::string_view text, TableOf kind, std::vector<TableEntry>& entries,
                 std::string& error) {
  entries.clear();
  text = trimmed(text);
  if (text.empty() || text == "none") return true;
  const auto before = [](const TableEntry& a, const TableEntry& b) {
    return a.cores != b.cores ? a.cores < b.cores : a.bytes < b.bytes;
  };
  for (;;) {
    const std::size_t end = std::min(text.find(','), text.size());
    TableEntry entry;
    if (!parse_entry(trimmed(text.substr(0, end)), kind, entry, error)) return false;
    if (!entries.empty() && !before(entries.back(), entry)) {
      error = "'" + std::string(trimmed(text.substr(0, end))) + "' is out of order, or given twice";
      return false;
    }
    entries.push_back(entry);
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

std::string format_table(const std::vector<TableEntry>& entries, TableOf kind) {
  if (entries.empty()) return "none";
  std::string text;
  for (const TableEntry& entry : entries) {
    if (!text.empty()) text += ", ";
    if (kind == TableOf::counts_by_cores) text += std::to_string(entry.cores) + "@";
    text += format_size(entry.bytes) + "=";
    text += kind == TableOf::durations ? format_duration(entry.value) : std::to_string(entry.value);
  }
  return text;
}

}  // namespace weir::config
