#include "transport/btl/params.h"

#include <algorithm>
#include <array>

#include "srq/rnr_timer.h"
#include "transport/config/schema.h"

namespace weir::btl {
namespace {

// Open MPI writes the values here. Texts, so that units can be given and errors be ours.
std::array<char*, 32> values;

void fill_defaults(mca_btl_base_module_t& standard) {
  config::Settings settings = config::defaults();
  std::string error;
  read_settings(settings, error);
  const auto largest = static_cast<std::size_t>(settings.buffer_bytes) - wire::first_payload_offset;

  standard = {};
  standard.btl_eager_limit = largest;
  standard.btl_rndv_eager_limit = largest;
  standard.btl_max_send_size = largest;
  // No PUT pipeline: ob1 hangs when something in it is refused.
  standard.btl_min_rdma_pipeline_size = SIZE_MAX;
  standard.btl_rdma_pipeline_send_length = SIZE_MAX;
  standard.btl_rdma_pipeline_frag_size = SIZE_MAX;
  // One get or put for each message: with several, ob1 hangs when one of them fails.
  standard.btl_get_limit = SIZE_MAX;
  standard.btl_put_limit = SIZE_MAX;
  standard.btl_exclusivity = 2048;  // before openib (1024) and tcp, after shared memory (65536)
  standard.btl_latency = 2;         // between shared memory and tcp
  standard.btl_bandwidth = 0;       // the port's speed
  standard.btl_flags = module_flags;
}

template <typename T>
T to(std::int64_t value) {
  return static_cast<T>(value);
}

// 4.096us * 2^code is what the adapter waits. [IBTA 11.6.2, Local ACK Timeout]
std::uint8_t ack_timeout_code(std::int64_t ns) {
  std::uint8_t code = 1;  // 0 would be for ever
  while (code < 31 && (std::int64_t{4096} << code) < ns) ++code;
  return code;
}

}  // namespace

int register_params(const mca_base_component_t& component, mca_btl_base_module_t& standard) {
  const auto keys = config::schema();
  if (keys.size() > values.size()) return OPAL_ERR_OUT_OF_RESOURCE;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const config::Key& key = keys[i];
    values[i] = const_cast<char*>(key.fallback);  // copied, never written
    const std::string help = std::string(key.help) + " (" + config::accepts(key) + ")";
    const int index = mca_base_component_var_register(
        &component, key.name, help.c_str(), MCA_BASE_VAR_TYPE_STRING, nullptr, 0,
        static_cast<mca_base_var_flag_t>(0),
        static_cast<mca_base_var_info_lvl_t>(OPAL_INFO_LVL_1 + key.level - 1),
        MCA_BASE_VAR_SCOPE_READONLY, &values[i]);
    if (index < 0) return index;
  }
  fill_defaults(standard);
  return mca_btl_base_param_register(const_cast<mca_base_component_t*>(&component), &standard);
}

bool read_settings(config::Settings& settings, std::string& error) {
  settings = config::defaults();
  const auto keys = config::schema();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const char* const value = values[i] != nullptr ? values[i] : "";
    if (!config::set(settings, keys[i], value, error)) return false;
  }
  return config::check(settings, error);
}

Engine::Options engine_options(const config::Settings& s, PeerName self) {
  using config::automatic;
  Engine::Options options;
  options.device.name = s.device;
  options.device.gid_index = to<int>(s.gid_index);

  Core::Config& core = options.core;
  core.self = self;
  core.buffer_bytes = to<std::uint32_t>(s.buffer_bytes);
  core.window.initial = to<std::uint32_t>(s.window_initial);
  core.window.max = to<std::uint32_t>(s.window_max);
  core.credits.max_credits = to<std::uint32_t>(std::min(s.credits_max, s.window_max));
  core.queue.depth = to<std::uint32_t>(s.send_queue_depth);
  core.queue.signal_interval =
      to<std::uint32_t>(std::min(s.signal_interval, s.send_queue_depth / 2));
  if (s.inline_bytes != automatic) core.inline_bytes = to<std::uint32_t>(s.inline_bytes);
  core.bundle_bytes = to<std::uint32_t>(std::min(s.bundle_bytes, s.buffer_bytes));
  core.burst_frames = to<std::uint32_t>(s.bundle_burst);
  core.pending_frames = to<std::uint32_t>(s.pending_max);
  core.connect_timeout = {s.connect_timeout_ns};
  core.attempt_timeout = std::min(core.attempt_timeout, core.connect_timeout);
  core.peer_timeout = {s.peer_timeout_ns};

  verbs::QueuePairOptions& pair = options.queue_pair;
  pair.send_depth = core.queue.depth;
  pair.inline_bytes = core.inline_bytes;
  core.rnr_auto = s.rnr_timer_ns == automatic;
  if (!core.rnr_auto) core.rnr_code = rnr_timer_code({s.rnr_timer_ns});
  pair.rnr_timer_code = core.rnr_code;
  pair.ack_timeout_code = ack_timeout_code(s.ack_timeout_ns);
  pair.retry_count = to<std::uint8_t>(s.retry_count);
  pair.mtu_bytes = s.mtu_bytes == automatic ? 0 : to<std::uint32_t>(s.mtu_bytes);

  options.close_timeout = {s.close_timeout_ns};
  return options;
}

}  // namespace weir::btl
