// The settings of the receive window, in the form that srq/ and the core take.
//
// Pure; any thread.
#pragma once

#include <cstdint>

#include "srq/window_controller.h"
#include "transport/config/settings.h"

namespace weir::config {

struct ReceiveWindow {
  WindowController::Config window;
  std::uint32_t unasked = UINT32_MAX;  // beyond this W grows only for a burst to us
};

ReceiveWindow receive_window(const Settings& settings);

}  // namespace weir::config
