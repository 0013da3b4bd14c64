// Values by message size, and perhaps by active cores, as people write them:
//
//   "64B=12, 4KiB=8"          12 for messages up to 64 bytes, 8 for larger ones; sizes below the
//                             first one take the first value
//   "1@4KiB=64, 8@4KiB=16"    the same with a number of cores in front: 16 for 8 cores and more
//
// Sizes count by powers of two (flowctl/size_class.h), as in the tables of [TOK §7].
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::config {

enum class TableOf : std::uint8_t { counts, durations, counts_by_cores };

struct TableEntry {
  std::int64_t cores = 1;
  std::int64_t bytes = 0;
  std::int64_t value = 0;  // a count, or nanoseconds
};

// False, with the mistake in `error`, if `text` is no such table. "none" and "" are empty tables.
// Entries come in rising order of cores, then of sizes.
bool parse_table(std::string_view text, TableOf kind, std::vector<TableEntry>& entries,
                 std::string& error);

std::string format_table(const std::vector<TableEntry>& entries, TableOf kind);

}  // namespace weir::config
