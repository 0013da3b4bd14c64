#include "tools/sim/network/fetching.h"

#include <algorithm>

namespace weir::sim::network {

Scheduler::Config scheduler_config(const Scenario& scenario) {
  Scheduler::Config config;
  config.plan.chunk_bytes = static_cast<std::uint32_t>(scenario.chunk_bytes);
  config.reads.adaptive = scenario.adaptive;
  config.reads.reads = scenario.reads;
  config.reads.most_reads = scenario.most_reads;
  config.reads.queue_bytes = std::max(scenario.queue_bytes, scenario.chunk_bytes);
  config.reads.step_bytes = scenario.chunk_bytes;
  config.reads.least_bytes = std::max(scenario.least_bytes, scenario.chunk_bytes);
  config.reads.initial_bytes = 4 * scenario.chunk_bytes;
  return config;
}

void end_chunk(SchedulerWithPeers& scheduler, Time now, const Operation& read, Duration took,
               bool failed) {
  const auto transfer = static_cast<TransferId>(read.token);
  if (!failed) {
    scheduler.on_chunk_done(now, transfer, read.bytes, took);
    return;
  }
  const PeerId peer = scheduler.request(transfer).peer;
  scheduler.on_chunk_failed(transfer, read.bytes);
  scheduler.cancel_peer(peer);
}

}  // namespace weir::sim::network
