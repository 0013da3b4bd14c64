// The path that queue pairs take with these settings. Shared by the plugin and the weir command,
// which tests the same path.
#pragma once

#include "transport/config/settings.h"
#include "transport/verbs/queues.h"

namespace weir::btl {

// Does not set the partition: only an open device knows its index in the port's table.
inline void set_path(verbs::QueuePairOptions& pair, const config::Settings& settings) {
  using config::automatic;
  if (settings.mtu_bytes != automatic) {
    pair.mtu_bytes = static_cast<std::uint32_t>(settings.mtu_bytes);
  }
  if (settings.service_level != automatic) {
    pair.service_level = static_cast<std::uint8_t>(settings.service_level);
  }
  if (settings.traffic_class != automatic) {
    pair.traffic_class = static_cast<std::uint8_t>(settings.traffic_class);
  }
}

}  // namespace weir::btl
