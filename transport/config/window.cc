#include "transport/config/window.h"

#include <algorithm>

#include "transport/config/schema.h"

namespace weir::config {

ReceiveWindow receive_window(const Settings& settings) {
  const auto count = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const std::int64_t most =
      std::max<std::int64_t>(settings.receive_memory_bytes / settings.buffer_bytes, 1);
  ReceiveWindow receive;
  receive.window.initial = count(std::min(settings.window_initial, most));
  receive.window.max = count(std::min(window_by_traffic(settings), most));
  if (settings.window_max == automatic) {
    receive.window.most = count(most);
    receive.unasked = count(window_unasked_auto);
  }
  return receive;
}

}  // namespace weir::config
