#include "transport/config/admission.h"

#include <algorithm>
#include <string>

#include "transport/config/table.h"

namespace weir::config {
namespace {

std::vector<TableEntry> table(const std::string& text, TableOf kind) {
  std::vector<TableEntry> entries;
  std::string error;
  parse_table(text, kind, entries, error);
  return entries;
}

// Calls `set(size class, value)` for every class, if there is anything to set.
template <typename Set>
void by_size(const TableEntry* begin, const TableEntry* end, Set&& set) {
  if (begin == end) return;
  for (unsigned size = 0; size < size_classes; ++size) {
    const auto fits = [&](const TableEntry& entry) {
      return static_cast<std::uint64_t>(entry.bytes) >= size_class_bytes(size);
    };
    const TableEntry* found = std::find_if(begin, end, fits);
    set(size, found == end ? (end - 1)->value : found->value);
  }
}

}  // namespace

Admission::Config admission(const Settings& settings) {
  Admission::Config config;
  if (settings.admission == "thresholds") config.policy = Admission::Policy::thresholds;
  if (settings.admission == "always") config.policy = Admission::Policy::always;
  config.tokens = static_cast<std::uint32_t>(settings.tokens);
  config.cost.bytes_per_token = static_cast<std::uint64_t>(settings.bytes_per_token);

  const auto count = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const auto each = [&](const std::string& text, TableOf kind, auto&& set) {
    const auto entries = table(text, kind);
    by_size(entries.data(), entries.data() + entries.size(), set);
  };
  each(settings.cct, TableOf::counts,
       [&](unsigned size, std::int64_t value) { config.thresholds.set_cct(size, count(value)); });
  each(settings.nrct, TableOf::counts,
       [&](unsigned size, std::int64_t value) { config.thresholds.set_nrct(size, count(value)); });
  each(settings.delay, TableOf::durations,
       [&](unsigned size, std::int64_t value) { config.rate.set_delay(size, {value}); });

  // A row holds from its number of cores up to the next row; the first row also for fewer cores.
  const auto rows = table(settings.crct, TableOf::counts_by_cores);
  std::uint32_t from = 1;
  for (auto row = rows.begin(); row != rows.end();) {
    const auto end =
        std::find_if(row, rows.end(), [&](const TableEntry& e) { return e.cores != row->cores; });
    const std::uint32_t to = end == rows.end()
                                 ? Thresholds::most_cores
                                 : std::min(count(end->cores) - 1, Thresholds::most_cores);
    for (std::uint32_t cores = from; cores <= to; ++cores) {
      by_size(&*row, &*row + (end - row), [&](unsigned size, std::int64_t value) {
        config.thresholds.set_crct(cores, size, count(value));
      });
    }
    from = to + 1;
    row = end;
  }
  return config;
}

}  // namespace weir::config
