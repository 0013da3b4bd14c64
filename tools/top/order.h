// Other caps for the processes of a job on this host (`weir set`), by orders in their memory.
//
// Thread rule: any; system calls.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/between/lines.h"
#include "tools/top/report.h"

namespace weir::tools::top {

// Processes look every 0.2 to 1 s.
inline constexpr std::chrono::seconds order_patience{5};

using Change = std::pair<std::size_t, std::int64_t>;  // which cap, and its value

// "reads_max=1", as a file has it. Nothing, and the reason for people, if it is no such change.
std::optional<Change> read_change(const std::string& text, std::string& why);
// "reads_max from auto to 1", for each.
std::vector<std::string> words_of(std::span<const Change> changes, const Caps& before);

// What became of an order.
struct Ordered {
  std::size_t processes = 0;
  std::size_t answered = 0;
  double seconds = 0;              // until then
  bool good = true;                // all have taken it
  bool takes_tokens = false;       // any
  Caps before{};                   // of one of them
  std::vector<std::string> words;  // of those that did not take it
};

// Asks the job's processes, and waits for them, for order_patience at most. Nothing, with the
// reason in `why`, if one cannot be asked.
std::optional<Ordered> order(const JobName& job, std::span<const Change> changes,
                             const std::string& directory, std::string& why);

// The same as an answerer does it, and what it says.
between::Json order_as_told(const between::Json& request);
between::Json order_for(const JobName& job, const std::vector<std::string>& changes);
// Nothing, and the reason, if it is no such answer.
std::optional<Ordered> ordered_of(const between::Json& answer);

}  // namespace weir::tools::top
