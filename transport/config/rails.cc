#include "transport/config/rails.h"

#include <algorithm>

#include "transport/config/schema.h"

namespace weir::config {

Settings for_each_rail(const Settings& settings, std::uint32_t rails) {
  Settings each = settings;
  const auto divide = [&](std::int64_t& value, std::int64_t least) {
    if (value != automatic) value = std::min(value, std::max(value / rails, least));
  };
  divide(each.receive_memory_bytes, settings.window_initial * settings.buffer_bytes);
  divide(each.reads_max, 1);
  divide(each.reads_window_max_bytes, settings.chunk_bytes);
  divide(each.rate_max, 1);
  divide(each.registration_bytes, 1);  // 0, none, stays
  return each;
}

}  // namespace weir::config
