#include "transport/btl/engine_options.h"

#include <algorithm>
#include <string>

#include "srq/rnr_timer.h"
#include "transport/btl/path_options.h"
#include "transport/config/admission.h"
#include "transport/config/caps.h"
#include "transport/config/rails.h"
#include "transport/config/window.h"

namespace weir::btl {
namespace {

// So many bytes of reads may always be under way, which a switch port buffers; and so many are while
// nothing is known of the fabric.
constexpr std::uint64_t reads_least_bytes = 64 << 10;
constexpr std::uint64_t reads_first_bytes = 128 << 10;

template <typename T>
T to(std::int64_t value) {
  return static_cast<T>(value);
}

// The adapter waits 4.096us * 2^code. [IBTA 11.6.2, Local ACK Timeout]
std::uint8_t ack_timeout_code(std::int64_t ns) {
  std::uint8_t code = 1;  // 0 would mean for ever
  while (code < 31 && (std::int64_t{4096} << code) < ns) ++code;
  return code;
}

std::uint32_t paths(const config::Settings& s) {
  return s.paths == config::automatic ? 1 : to<std::uint32_t>(s.paths);
}

// What may change later, too.
CoreLimits core_limits(const config::Settings& s) {
  const config::ReceiveWindow receive = config::receive_window(s);
  CoreLimits limits{.window = receive.window,
                    .window_unasked = receive.unasked,
                    .reads = {},
                    .tokens = to<std::uint32_t>(s.tokens)};
  if (s.rate_max != config::automatic) limits.bytes_per_second = to<std::uint64_t>(s.rate_max);
  BudgetController::Config& reads = limits.reads;
  reads.adaptive = s.reads_max == config::automatic;
  if (!reads.adaptive) reads.reads = to<std::uint32_t>(s.reads_max);
  const auto chunk = to<std::uint64_t>(s.chunk_bytes);
  reads.chunk_bytes = to<std::uint32_t>(s.chunk_bytes);
  // One queue for each path: with less, some paths run dry between two chunks.
  reads.queue_bytes = std::max(reads.queue_bytes, chunk) * paths(s);
  reads.initial_bytes = std::min(4 * chunk, std::max(chunk, reads_first_bytes));
  reads.most_bytes = to<std::uint64_t>(s.reads_window_max_bytes);
  reads.least_bytes = std::min(reads_least_bytes, reads.most_bytes);
  return limits;
}

}  // namespace

Engine::Options engine_options(const config::Settings& s, PeerName self, OnNode node) {
  using config::automatic;
  Engine::Options options;
  options.device.name = s.device;
  options.device.gid_index = to<int>(s.gid_index);
  options.send_bytes = to<std::uint64_t>(s.send_memory_bytes);

  Core::Config& core = options.core;
  core.self = self;
  core.buffer_bytes = to<std::uint32_t>(s.buffer_bytes);
  const CoreLimits limits = core_limits(s);
  core.window = limits.window;
  core.window_unasked = limits.window_unasked;
  core.shrink_after = {s.window_shrink_after_ns};
  if (s.inline_bytes != automatic) core.inline_bytes = to<std::uint32_t>(s.inline_bytes);
  core.bundle_bytes = to<std::uint32_t>(std::min(s.bundle_bytes, s.buffer_bytes));
  core.bundle_message_bytes = core.bundle_bytes / Core::Config::bundled_part;
  core.connections_max = to<std::uint32_t>(s.connections_max);
  core.connect_timeout = {s.connect_timeout_ns};
  core.attempt_timeout = std::min(core.attempt_timeout, core.connect_timeout);
  core.peer_timeout = {s.peer_timeout_ns};
  core.resumes = true;

  core.transfers.plan.chunk_bytes = to<std::uint32_t>(s.chunk_bytes);
  core.transfers.chain_bytes = to<std::uint64_t>(s.offload_bytes);
  core.paths = paths(s);
  core.transfers.reads = limits.reads;

  core.admission = config::admission(s);
  core.admission.bytes_per_second = limits.bytes_per_second;
  options.node.show = true;
  options.node.share = s.node_sharing != "off";
  options.node.share_reads = s.node_sharing != "auto";
  if (s.node_sharing == "job") options.node.sharers = "job " + std::to_string(self.job);
  options.node.tells = node.first;
  if (options.node.tells) options.node.processes = node.processes;

  options.proxy.servers = to<std::uint32_t>(s.proxy_servers);
  options.proxy.tasks = node.processes;
  core.proxy = s.proxy_servers > 0;

  verbs::QueuePairOptions& pair = options.queue_pair;
  pair.send_depth = core.queue.depth;
  pair.inline_bytes = core.inline_bytes;
  core.rnr_auto = s.rnr_timer_ns == automatic;
  if (!core.rnr_auto) core.rnr_code = rnr_timer_code({s.rnr_timer_ns});
  pair.rnr_timer_code = core.rnr_code;
  pair.ack_timeout_code = ack_timeout_code(s.ack_timeout_ns);
  pair.retry_count = to<std::uint8_t>(s.retry_count);
  core.repeats_for = {(std::int64_t{4096} << pair.ack_timeout_code) * (pair.retry_count + 1)};
  set_path(pair, s);
  if (s.pkey != automatic) options.pkey = to<std::uint16_t>(s.pkey);

  return options;
}

void let_caps_change(Engine::Options& options, const config::Settings& settings,
                     std::uint32_t rails) {
  options.node.caps = config::caps_of(settings);
  options.node.limits_of = [settings, rails](const Caps& now, const Caps& asked,
                                             std::string& why) -> std::optional<NewLimits> {
    config::Settings changed = settings;
    if (!config::set_caps(changed, asked, why)) return std::nullopt;
    return NewLimits{core_limits(config::for_each_rail(changed, rails)),
                     config::changes(now, asked)};
  };
}

}  // namespace weir::btl
