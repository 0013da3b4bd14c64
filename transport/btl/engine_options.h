// The engine that these settings make. Shared by the plugin and the weir command, which measures
// the same engine.
#pragma once

#include <cstdint>

#include "transport/config/settings.h"
#include "transport/engine/engine.h"

namespace weir::btl {

// The place of a process on its node.
struct OnNode {
  std::uint32_t processes = 1;  // of its job there
  bool first = true;            // of these
};

// `settings` are those of a rail.
Engine::Options engine_options(const config::Settings& settings, PeerName self, OnNode node);

// From here on `weir set` may change caps of a process with these settings and so many rails.
void let_caps_change(Engine::Options& options, const config::Settings& settings,
                     std::uint32_t rails);

}  // namespace weir::btl
