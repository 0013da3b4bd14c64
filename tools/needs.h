// What weir needs of a device, next to what the device has. For `weir info` and `weir doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/config/settings.h"
#include "transport/verbs/device.h"

namespace weir::tools {

struct Need {
  const char* limit;  // as in ibv_query_device
  std::uint64_t has = 0;
  std::uint64_t wants = 0;
  std::string why;         // where the need comes from
  bool essential = false;  // weir does not start without

  bool met() const { return has >= wants; }
};

// `device` must be open: some limits can only be found out by trying.
std::vector<Need> needs_of(const verbs::Device& device, const config::Settings& settings);

// Bytes of inline data that a queue pair of the plugin's has on `device`: at most `wanted`, 0 if
// there can be no pair.
std::uint32_t inline_bytes_had(const verbs::Device& device, std::uint32_t wanted);

const char* atomics_text(ibv_atomic_cap atomics);

// Memory that a process registers: with the first peer, and at most.
std::uint64_t least_registered_bytes(const config::Settings& settings);
std::uint64_t most_registered_bytes(const config::Settings& settings);

// "8 MiB"
std::string bytes_text(std::uint64_t bytes);

}  // namespace weir::tools
