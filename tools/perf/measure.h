// The loops that are timed.
//
// Every wait has a deadline: it ends when nothing has moved for `silence`, or when nobody listens
// on standard input any more, where requests come from. Thread rule: one thread.
#pragma once

#include <optional>
#include <string>

#include "tools/doctor/waiting.h"
#include "tools/perf/way.h"

namespace weir::tools::perf {

enum class Kind : std::uint8_t {
  latency,  // one at a time: half a round trip of messages, or one operation until its end is known
  stream,   // as many under way as `Way::window`
  both,     // streams of messages in both directions
};

struct Measure {
  Operation operation = Operation::send;
  Kind kind = Kind::latency;
  std::uint64_t bytes = 1;
  std::uint32_t count = 1;  // operations
  bool first = true;        // of the two ends: the one that begins
  bool check = false;       // look at each byte
  bool yields = false;      // the ends share processors: give them up when nothing comes
  doctor::milliseconds silence{30000};
};

struct Figures {
  double us = 0;       // Kind::latency: the median, and
  double us_99 = 0;    // the 99th percentile
  double seconds = 0;  // else: of all operations
};

// Nothing, with the reason in `why`, if it fails; then the way is unusable. Puts, gets and atomics
// are the first end's alone.
std::optional<Figures> measure(Way& way, const Measure& what, std::string& why);

}  // namespace weir::tools::perf
