#include "tools/needs.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <thread>

#include "transport/config/schema.h"
#include "transport/config/window.h"
#include "transport/engine/slot_pool.h"
#include "transport/lane/send_queue.h"
#include "transport/verbs/queues.h"

namespace weir::tools {
namespace {

// What a full node has of processes, for want of anything better known.
std::uint64_t processes() { return std::max(1u, std::thread::hardware_concurrency()); }

std::uint32_t inline_wanted(const config::Settings& settings) {
  return settings.inline_bytes == config::automatic
             ? verbs::QueuePairOptions{}.inline_bytes
             : static_cast<std::uint32_t>(settings.inline_bytes);
}

}  // namespace

// A pair of the plugin's asks for less until the device agrees.
std::uint32_t inline_bytes_had(const verbs::Device& device, std::uint32_t wanted) {
  verbs::QueuePairOptions options;
  options.inline_bytes = wanted;
  std::string why;
  const auto queues = verbs::Queues::create(device, 1, options, why);
  return queues != nullptr && queues->create_pair(LaneId{0}, why) != 0 ? queues->inline_bytes() : 0;
}

const char* atomics_text(ibv_atomic_cap atomics) {
  switch (atomics) {
    case IBV_ATOMIC_HCA: return "among RDMA atomics";
    case IBV_ATOMIC_GLOB: return "with the CPU too";
    default: return "none";
  }
}

std::vector<Need> needs_of(const verbs::Device& device, const config::Settings& settings) {
  const ibv_device_attr& has = device.limits();
  ibv_port_attr port{};
  ibv_query_port(device.context(), device.port().port, &port);
  const auto u = [](auto value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t full_node = processes();
  const std::uint64_t depth = u(SendQueue::Config{}.depth);
  const std::uint64_t window = u(config::window_by_traffic(settings));
  const std::uint64_t buffer = u(settings.buffer_bytes);

  // As verbs/queues.cc sizes it: each receive and each send of each peer may complete at once.
  const std::uint64_t completions = window + (full_node + 1) * depth;
  const std::uint64_t peers =
      u(has.max_cqe) > window + depth ? (u(has.max_cqe) - window) / depth - 1 : 0;
  // Receive memory comes in slabs that double the window; 16 each way is plenty.
  constexpr std::uint64_t slabs = 32;

  const std::string node = fmt::format("{} processes, one for each CPU", full_node);
  return {
      {"max_qp", u(has.max_qp), full_node * full_node,
       "one for each process and peer of a node, made when they first talk: " + node, false},
      {"max_cq", u(has.max_cq), full_node, "one for each process; " + node, true},
      {"max_srq", u(has.max_srq), full_node, "one for each process; " + node, true},
      {"max_srq_wr", u(has.max_srq_wr), window, "btl_weir_window_max", true},
      {"max_cqe", u(has.max_cqe), completions,
       fmt::format("window_max + {} for each peer: {} peers fit", depth, peers), false},
      {"max_qp_wr", u(has.max_qp_wr), depth, "work requests of a peer's queue", true},
      {"max_mr", u(has.max_mr), full_node * slabs, "slabs of buffers; " + node, false},
      {"max_mr_size", u(has.max_mr_size), window * buffer,
       "btl_weir_window_max * btl_weir_buffer_size", false},
      {"max_msg_sz", u(port.max_msg_sz), buffer, "btl_weir_buffer_size", true},
      {"max_inline", inline_bytes_had(device, inline_wanted(settings)), inline_wanted(settings),
       "btl_weir_inline_limit", false},
      {"max_qp_rd_atom", u(has.max_qp_rd_atom), 1, "large messages by RDMA read", false},
      {"max_qp_init_rd_atom", u(has.max_qp_init_rd_atom), 1, "large messages by RDMA read", false},
      {"atomics", has.atomic_cap == IBV_ATOMIC_NONE ? 0u : 1u, 1, "one-sided operations", false},
  };
}

std::uint64_t least_registered_bytes(const config::Settings& settings) {
  const std::int64_t window = config::receive_window(settings).window.initial;
  return static_cast<std::uint64_t>(window * settings.buffer_bytes) +
         SlotPool::least_bytes(static_cast<std::uint32_t>(settings.buffer_bytes));
}

std::uint64_t most_registered_bytes(const config::Settings& settings) {
  const std::int64_t window = config::receive_window(settings).window.max;
  return static_cast<std::uint64_t>(window * settings.buffer_bytes + settings.send_memory_bytes);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, units[unit]);
}

}  // namespace weir::tools
