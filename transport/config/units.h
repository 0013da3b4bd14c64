// Durations and sizes as people write them: "640us", "1.5s", "8KiB".
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::config {

// Without the blanks around it.
std::string_view trimmed(std::string_view text);

// Nanoseconds of "10ns", "640us", "4ms", "1.5s", "2min", "1h" or "0". Anything else, such as a
// number without unit, gives false and the mistake in `error`.
bool parse_duration(std::string_view text, std::int64_t& ns, std::string& error);

// Bytes of "256", "256B", "8KiB", "64MiB", "1GiB"; "iB" may be omitted. Anything else gives false
// and the mistake in `error`: "KB" means 1000 to some people and 1024 to others.
bool parse_size(std::string_view text, std::int64_t& bytes, std::string& error);

// An integer, perhaps negative: decimal, or hexadecimal after 0x. Anything else gives false and the
// mistake in `error`.
bool parse_count(std::string_view text, std::int64_t& count, std::string& error);

// The shortest exact text that the functions above read back.
std::string format_duration(std::int64_t ns);
std::string format_size(std::int64_t bytes);

}  // namespace weir::config
