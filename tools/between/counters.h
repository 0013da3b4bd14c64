// A port's counters of what goes wrong: RNR NAKs, retries, drops, congestion (CNP, ECN), pauses
// (PFC). They count for all users of the port, so only differences mean something.
//
// Thread rule: none; each read opens the files anew.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/between/lines.h"

namespace weir::tools::between {

using Counters = std::map<std::string, std::uint64_t>;  // by the driver's name

// What a counter tells; its name in words is for people.
enum class Trouble : std::uint8_t { rnr, repeat, drop, cable, congestion, pause };

struct Rise {
  std::string name;
  Trouble trouble;
  std::string words;
  std::uint64_t by = 0;
};

// Those in sysfs, below `ports`: /sys/class/infiniband/DEVICE/ports/PORT, and those that the driver
// of the network interface has for ethtool, if there is one. Only counters that are known here.
Counters read_counters(const std::string& port_folder, const std::string& interface);

// Those of a bad cable or plug.
Counters cable_errors(const Counters& counters);

// "symbol errors of the link (symbol_error)"; empty if it is not known.
std::string words_of(const std::string& counter);

// What rose from `before` to `after`.
std::vector<Rise> rises(const Counters& before, const Counters& after);

Json to_json(const Counters& counters);
Counters counters_of(const Json& answer);

}  // namespace weir::tools::between
