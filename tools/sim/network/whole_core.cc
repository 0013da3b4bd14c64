#include "tools/sim/network/whole_core.h"

#include <algorithm>
#include <memory>

#include "tools/sim/network/packet.h"
#include "transport/config/admission.h"
#include "transport/config/schema.h"
#include "transport/config/window.h"

namespace weir::sim::network {
namespace {

constexpr std::uint32_t header_room_bytes = 64;

// How many messages each process sends to each. What stays on a node is not the fabric's.
std::vector<std::vector<std::uint32_t>> count_messages(const Scenario& scenario, const Roles& roles,
                                                       std::uint64_t seed) {
  const std::uint32_t nodes = scenario.fabric.topology.nodes();
  const std::uint32_t each = scenario.processes;
  std::vector<std::vector<std::uint32_t>> counts(nodes * each,
                                                 std::vector<std::uint32_t>(nodes * each));
  if (ends(scenario.pattern)) {
    const Workload workload = make_workload(scenario, seed);
    for (const Message& message : workload.messages) {
      if (!workload.is_local(message)) ++counts[message.source][message.target];
    }
    return counts;
  }
  for (NodeId target = 0; target < nodes; ++target) {
    std::uint32_t process = 0;
    for (const NodeId source : roles.sources[target]) {
      counts[source * each + process][target * each + process] = scenario.rounds;
      process = (process + 1) % each;
    }
  }
  return counts;
}

// The transport's keys: what the scenario says of them, else their defaults.
config::Settings settings_of(const Scenario& scenario, std::uint32_t buffer_bytes) {
  config::Settings settings = config::defaults();
  settings.buffer_bytes = buffer_bytes;
  settings.window_initial = scenario.window_initial;
  if (scenario.window_max > 0) settings.window_max = scenario.window_max;
  if (scenario.tokens > 0) {
    settings.admission = scenario.thresholds ? "thresholds" : "always";
    settings.tokens = scenario.tokens;
    settings.cct = scenario.cct;
    settings.nrct = scenario.nrct;
    settings.crct = scenario.crct;
  }
  return settings;
}

Core::Config core_config(const Scenario& scenario) {
  Core::Config core;
  core.buffer_bytes = static_cast<std::uint32_t>(scenario.eager_bytes) + header_room_bytes;
  core.bundle_bytes = std::min(core.bundle_bytes, core.buffer_bytes);
  const config::Settings settings = settings_of(scenario, core.buffer_bytes);
  const config::ReceiveWindow receive = config::receive_window(settings);
  core.window = receive.window;
  core.window_unasked = scenario.window_unasked > 0 ? scenario.window_unasked : receive.unasked;
  core.shrink_after = {};
  core.transfers = scheduler_config(scenario);
  // Where memory begins differs from run to run but for that; where chunks are cut must not.
  core.transfers.plan.alignment_bytes = AlignedBytes::line;
  core.max_rd_atomic = scenario.max_rd_atomic;
  if (scenario.budget_of == BudgetOf::transfer) {
    core.max_rd_atomic = std::min(core.max_rd_atomic, scenario.reads);
    core.transfers.reads.reads = ChunkBudget::no_limit;
  }
  core.admission = config::admission(settings);
  core.proxy = scenario.proxy_servers > 0;
  return core;
}

void add_ranks(const Scenario& scenario, std::uint64_t seed, Plan& plan) {
  Workload workload = make_workload(scenario, seed);
  for (Script& script : plan.scripts) {
    script.bytes = announcement_bytes;  // of the first, for the connection
    script.one_sided.announced_bytes = 0;
  }
  for (const Message& message : workload.messages) {
    if (message.bytes <= scenario.eager_bytes) continue;
    std::uint32_t& offered = plan.scripts[message.source].one_sided.offered_bytes;
    offered = std::max(offered, static_cast<std::uint32_t>(message.bytes));
  }
  const Ranks::Config config{.ranks = static_cast<std::uint32_t>(plan.scripts.size()),
                             .eager_bytes = scenario.eager_bytes,
                             .announcement_bytes = announcement_bytes,
                             .cycle_ns = scenario.cycle_ns,
                             .match = {scenario.match_ns}};
  plan.ranks = [workload = std::move(workload), config](Fabric& fabric) {
    return std::make_unique<Ranks>(fabric, workload, config);
  };
}

auto wire_of(const Scenario& scenario, const Roles& roles, std::uint64_t seed) {
  return [scenario, roles, seed](Fabric& fabric) {
    return make_packet_wire(fabric, scenario, roles, seed);
  };
}

// Connections are made in the same time whatever follows.
Time begin_of_traffic(Plan plan) {
  plan.ranks = {};
  for (Script& script : plan.scripts) {
    for (std::uint32_t& count : script.messages) count = std::min(count, 1u);
  }
  return sim::run(plan).begun;
}

}  // namespace

Plan core_plan(const Scenario& scenario, std::uint64_t seed) {
  const Roles roles = draw_roles(scenario, seed);
  const std::uint32_t processes = scenario.fabric.topology.nodes() * scenario.processes;
  Plan plan;
  plan.seed = seed;
  plan.engine.core = core_config(scenario);
  plan.engine.proxy_servers = scenario.proxy_servers;
  plan.engine.own_reads = scenario.budget_of != BudgetOf::node;
  // A rank that has a node for itself has nobody to wait for.
  if (!ends(scenario.pattern) || scenario.processes > 1 || scenario.tokens > 0) {
    plan.processes_per_host = scenario.processes;
  }
  if (scenario.context_cache > 0) {
    plan.adapter = {.contexts = scenario.context_cache,
                    .of = scenario.context_of,
                    .serve = {},  // a queue pair is busy with its frame anyway (PacketWire)
                    .miss = {scenario.context_miss_ns}};
    plan.processes_per_adapter = scenario.processes;
  }
  plan.connect_first = true;
  plan.most_steps = UINT64_MAX;
  // Without loss nobody has a reason to repeat anything, however long a message stands in line.
  const double timeout_ns = static_cast<double>(scenario.timeout_cycles) * scenario.cycle_ns;
  plan.timing.retries =
      scenario.fabric.lossy() ? Duration{static_cast<std::int64_t>(timeout_ns) * 7} : seconds(10);
  Script script;
  const bool eager = scenario.message_bytes <= scenario.eager_bytes;
  script.bytes =
      eager ? std::max(static_cast<std::uint32_t>(scenario.message_bytes), 1u) : announcement_bytes;
  if (!eager) {
    script.one_sided.announced_bytes = static_cast<std::uint32_t>(scenario.message_bytes);
  }
  script.notify_permille = 0;
  script.start = microseconds(1);
  script.spins = true;
  script.compute_permille = scenario.compute_permille;
  script.compute = {scenario.compute_ns};
  for (std::vector<std::uint32_t>& counts : count_messages(scenario, roles, seed)) {
    plan.scripts.push_back(script);
    plan.scripts.back().messages = std::move(counts);
  }
  if (scenario.steps_wait) add_ranks(scenario, seed, plan);
  plan.limit_styles.assign(processes,
                           scenario.rxe_limit ? SrqLimitStyle::rxe : SrqLimitStyle::hardware);
  plan.wire = wire_of(scenario, roles, seed);
  if (scenario.fabric.outages.empty()) return plan;
  Scenario later = scenario;
  const double begun = static_cast<double>(begin_of_traffic(plan).ns) / scenario.cycle_ns;
  for (Outage& outage : later.fabric.outages) {
    outage.from_cycles += static_cast<std::uint64_t>(begun);
    outage.to_cycles += static_cast<std::uint64_t>(begun);
  }
  plan.wire = wire_of(later, roles, seed);
  return plan;
}

namespace {

// What nodes that receive and are not slow get a cycle, in flits, until each has all it ever gets.
double rate_of_others(const Scenario& scenario, const Roles& roles, const Plan& plan,
                      const Outcome& outcome) {
  const std::uint32_t each = scenario.processes;
  double sum = 0;
  std::uint32_t count = 0;
  for (NodeId node = 0; node < scenario.fabric.topology.nodes(); ++node) {
    std::uint64_t messages = 0;
    Time served = outcome.begun;
    for (std::uint32_t i = node * each; i < (node + 1) * each; ++i) {
      for (const Script& script : plan.scripts) messages += script.messages[i];
      served = std::max(served, outcome.served[i]);
    }
    if (messages == 0 || roles.slowness[node] > 1 || served == outcome.begun) continue;
    const double flits = static_cast<double>(messages * scenario.message_bytes) / flit_bytes;
    sum += flits * scenario.cycle_ns / static_cast<double>((served - outcome.begun).ns);
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

// How long a process took to have all it ever gets, in the mean.
double mean_served_us(const Outcome& outcome) {
  double sum = 0;
  double count = 0;
  for (const Time served : outcome.served) {
    if (served <= outcome.begun) continue;
    sum += static_cast<double>((served - outcome.begun).ns) / 1'000;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace

Measured run_core(const Scenario& scenario, std::uint64_t seed) {
  const Plan plan = core_plan(scenario, seed);
  const Outcome outcome = sim::run(plan);
  std::uint64_t planned = 0;
  std::uint64_t messages = 0;
  for (const Script& script : plan.scripts) {
    for (const std::uint32_t count : script.messages) {
      planned += count;
      messages += count + (count > 0 ? 1 : 0);  // the one that made the connection
    }
  }
  std::uint64_t bytes = scenario.trace.empty() ? planned * scenario.message_bytes : 0;
  for (const TraceMessage& message : scenario.trace) bytes += message.bytes;
  const double us = static_cast<double>((outcome.last_served - outcome.begun).ns) / 1'000;
  const double cycles = std::max(us * 1'000 / scenario.cycle_ns, 1.0);
  const double packets = static_cast<double>(outcome.wire.delivered_flits) / packet_flits;
  const double mean_us = mean_served_us(outcome);
  const auto rate = static_cast<double>(outcome.messages) /
                    static_cast<double>(plan.scripts.size()) / std::max(mean_us, 1e-3) * 1'000;

  Measured result;
  const auto add = [&](const char* name, auto value) {
    result.values.emplace_back(name, static_cast<double>(value));
  };
  add("throughput",
      static_cast<double>(bytes) / flit_bytes / cycles / scenario.fabric.topology.nodes());
  add("detours", packets > 0 ? static_cast<double>(outcome.wire.detours) / packets : 0);
  add("lost_packets", outcome.wire.lost_packets);
  add("messages", messages);
  add("received", outcome.messages);
  add("finished_us", outcome.ok() ? us : 0);
  add("mean_us", mean_us);
  add("rate", rate);
  add("gbit_s", static_cast<double>(bytes) * 8 / std::max(us, 1e-3) / 1'000);
  add("window", outcome.window);
  add("memory_kib", static_cast<double>(outcome.receive_bytes_peak) / 1'024);
  add("rnr_naks", outcome.rnr_naks);
  add("control_share",
      static_cast<double>(outcome.total.control_sent) /
          static_cast<double>(outcome.total.control_sent + outcome.total.frames_sent));
  add("recalls", outcome.total.credit_recalls);
  add("overcommitted", outcome.total.credits_overcommitted);
  std::vector<double> latencies;
  for (const Duration latency : outcome.latencies) {
    latencies.push_back(static_cast<double>(latency.ns) / 1'000);
  }
  add_latencies(std::move(latencies), result.values);
  if (!ends(scenario.pattern)) {
    add("others", rate_of_others(scenario, draw_roles(scenario, seed), plan, outcome));
  }
  if (plan.processes_per_host > 0) {
    add("node_reads", outcome.reads_out_most);
    add("node_read_waits", outcome.total.node_read_waits);
    add("token_waits", outcome.total.token_waits);
  }
  if (scenario.tokens > 0) {
    std::uint64_t took = 0;
    for (const TokenWaits& waits : outcome.waits) took += waits.requests;
    add("token_requests", took);
    const std::uint64_t requests = outcome.total.frames_sent + outcome.total.chunks_sent;
    add("straight_through", requests - took);
    add("straight_share", static_cast<double>(requests - took) / static_cast<double>(requests));
  }
  if (scenario.proxy_servers > 0) {
    add("proxy_served", outcome.total.proxy_served);
    add("proxy_coalesced", outcome.total.proxy_coalesced);
    add("proxy_repeated", outcome.total.proxy_repeated);
  }
  if (scenario.context_cache > 0) {
    add("contexts_needed", outcome.contexts.served);
    add("context_misses", outcome.contexts.misses);
  }
  result.violation = outcome.ok() ? "" : outcome.violations.front();
  result.events = outcome.wire.events + outcome.steps;
  result.trace_hash =
      mix(outcome.wire.hash ^ mix(static_cast<std::uint64_t>(outcome.end.ns)) ^ outcome.steps);
  return result;
}

}  // namespace weir::sim::network
