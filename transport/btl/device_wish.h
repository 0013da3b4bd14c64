// The ports that a process with these settings looks for. Shared by the plugin and the weir
// command, which shows the plugin's choice.
#pragma once

#include "transport/config/settings.h"
#include "transport/verbs/ports.h"

namespace weir::btl {

// The settings name neither a number of rails nor ports: a process that wants two rails may get
// one.
inline bool chooses_rails(const config::Settings& settings) {
  return settings.rails == config::automatic && settings.device == "auto";
}

// As if alone on its node.
inline verbs::DeviceWish device_wish(const config::Settings& settings) {
  verbs::DeviceWish wish{.name = settings.device,
                         .gid_index = static_cast<int>(settings.gid_index)};
  if (settings.pkey != config::automatic) wish.pkey = static_cast<std::uint16_t>(settings.pkey);
  if (settings.rails != config::automatic) wish.rails = static_cast<std::size_t>(settings.rails);
  return wish;
}

}  // namespace weir::btl
