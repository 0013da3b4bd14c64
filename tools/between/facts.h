// What a host says of itself before anything is tried: versions, configuration, port, hardware.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tools/between/counters.h"
#include "tools/between/hardware.h"
#include "tools/between/lines.h"
#include "transport/config/resolve.h"

namespace weir::tools::between {

// A table of thresholds is long; nothing is longer than this.
inline constexpr std::size_t longest_value = 8000;

struct Setting {
  std::string value;
  std::string where;  // "default", "/etc/weir/weir.yaml:3"

  friend bool operator==(const Setting&, const Setting&) = default;
};

struct PortFacts {
  std::string name;       // "mlx5_0:1"
  std::string link;       // "RoCE" or "InfiniBand"
  std::string gid;        // as an address
  std::string gid_type;   // "RoCEv2"
  std::string interface;  // "eth0", if it has one
  std::string rails;      // "mlx5_0:1, mlx5_1:1"
  std::uint64_t rail_count = 1;
  std::uint64_t mtu_bytes = 0;  // active
  std::uint64_t speed_mbps = 0;
  bool soft = false;  // Soft-RoCE: what its link can do says nothing

  friend bool operator==(const PortFacts&, const PortFacts&) = default;
};

struct Facts {
  std::string host;  // as it calls itself
  std::string weir;
  std::string open_mpi;  // its version; empty if there is none
  std::string why_no_open_mpi;
  std::string profile;  // in effect
  std::map<std::string, Setting> settings;
  std::uint64_t mistakes = 0;  // of the configuration
  std::string first_mistake;
  std::optional<PortFacts> port;
  std::string why_no_port;
  Hardware hardware;
  std::string slow_slot;  // why_slow_slot
  Counters counters;      // since the port came up

  friend bool operator==(const Facts&, const Facts&) = default;
};

// The part that the configuration has.
void describe(const config::Configuration& here, Facts& facts);

Json to_json(const Facts& facts);
// Of an answer: unknown keys of the configuration are left out, strings are safe for a terminal.
Facts facts_of(const Json& answer);

}  // namespace weir::tools::between
