#include "tools/sim/network/whole_core.h"

#include <algorithm>
#include <memory>

#include "srq/rnr_timer.h"
#include "transport/config/admission.h"
#include "transport/config/schema.h"
#include "transport/config/window.h"

namespace weir::sim::network {
namespace {

constexpr std::uint32_t header_room_bytes = 64;

Core::Config core_config(const Scenario& scenario) {
  Core::Config core;
  core.buffer_bytes = static_cast<std::uint32_t>(scenario.eager_bytes) + header_room_bytes;
  core.bundle_bytes = std::min(core.bundle_bytes, core.buffer_bytes);
  // The transport's keys: what the scenario says of them, else their defaults.
  config::Settings settings = config::defaults();
  settings.buffer_bytes = core.buffer_bytes;
  settings.window_initial = scenario.window_initial;
  if (scenario.window_max > 0) settings.window_max = scenario.window_max;
  const config::ReceiveWindow receive = config::receive_window(settings);
  core.window = receive.window;
  core.window_unasked = receive.unasked;
  core.shrink_after = {};
  core.transfers = scheduler_config(scenario);
  // Addresses of memory differ from run to run; where chunks are cut must not.
  core.transfers.plan.alignment_bytes = line_bytes;
  if (scenario.budget_of == BudgetOf::connection) {
    core.max_rd_atomic = std::min(core.max_rd_atomic, scenario.reads);
    core.transfers.reads.reads = ChunkBudget::no_limit;
  }
  core.admission = config::admission(settings);
  core.rnr_auto = scenario.rnr_ns == 0;
  if (!core.rnr_auto) core.rnr_code = rnr_timer_code({scenario.rnr_ns});
  return core;
}

// The processes of a node share one adapter. A message is a request, and nothing else bounds it.
void share_adapter(const Scenario& scenario, Plan& plan) {
  plan.adapter.contexts = scenario.contexts;
  plan.processes_per_adapter = scenario.processes;
  plan.timing.per_frame = {0};  // the adapter's time is the model's
  Core::Config& core = plan.engine.core;
  core.credits.max_credits = 2 * scenario.outstanding;
  core.queue.depth = core.queue.control_reserve + scenario.outstanding;
  core.queue.signal_interval = 1;
  core.bundle_bytes = core.bundle_message_bytes = 0;
  core.burst_frames = core.pending_frames = scenario.rounds;
  core.admission.tokens = scenario.contexts;
  if (scenario.limit != Limit::none) core.admission.policy = Admission::Policy::always;
  if (scenario.limit != Limit::rate) return;
  plan.processes_per_host = 0;
  for (unsigned size_class = 0; size_class < size_classes; ++size_class) {
    core.admission.rate.set_delay(size_class,
                                  {2 * plan.adapter.serve.ns * scenario.processes});
  }
}

// What nodes that receive and are not slow get a cycle, in flits, until each has all it ever gets.
double rate_of_others(const Scenario& scenario, const Roles& roles, const Plan& plan,
                      const Outcome& outcome) {
  const std::uint32_t each = scenario.processes;
  double sum = 0;
  std::uint32_t count = 0;
  for (std::uint32_t node = 0; node < roles.slowness.size(); ++node) {
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

Plan core_plan(const Scenario& scenario, std::uint64_t seed) {
  const Roles roles = draw_roles(scenario, seed);
  Plan plan;
  plan.seed = seed;
  plan.engine.core = core_config(scenario);
  plan.engine.own_reads = scenario.budget_of != BudgetOf::node;
  // A rank that has a node for itself has nobody to wait for.
  if (!has_ranks(scenario.pattern) || scenario.processes > 1) {
    plan.processes_per_host = scenario.processes;
  }
  if (scenario.contexts > 0) share_adapter(scenario, plan);
  plan.connect_first = true;
  plan.most_steps = UINT64_MAX;
  // Nobody has a reason to repeat anything, however long a message stands in line.
  plan.timing.retries = seconds(10);
  Script script;
  const bool eager = scenario.message_bytes <= scenario.eager_bytes;
  script.bytes =
      eager ? std::max(static_cast<std::uint32_t>(scenario.message_bytes), 1u) : announcement_bytes;
  if (!eager) {
    script.one_sided.announced_bytes = static_cast<std::uint32_t>(scenario.message_bytes);
  }
  script.notify_permille = 0;
  script.start = microseconds(scenario.contexts > 0 ? 10 : 1);  // not all in step
  script.spins = true;
  for (std::vector<std::uint32_t>& counts : count_messages(scenario, roles, seed)) {
    plan.scripts.push_back(script);
    plan.scripts.back().messages = std::move(counts);
  }
  plan.limit_styles.assign(plan.scripts.size(), SrqLimitStyle::hardware);
  plan.wire = [scenario, roles, seed](Fabric& fabric) {
    return make_packet_wire(fabric, scenario, roles, seed);
  };
  return plan;
}

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
  const auto bytes = static_cast<double>(planned * scenario.message_bytes);
  const double us = static_cast<double>((outcome.last_served - outcome.begun).ns) / 1'000;
  const double cycles = std::max(us * 1'000 / scenario.cycle_ns, 1.0);
  const Counters& total = outcome.total;

  Measured result;
  const auto add = [&](const char* name, auto value) {
    result.values.emplace_back(name, static_cast<double>(value));
  };
  add("throughput", bytes / flit_bytes / cycles / scenario.fabric.topology.nodes());
  add("messages", messages);
  add("received", outcome.messages);
  add("finished_us", outcome.ok() ? us : 0);
  add("rate", static_cast<double>(outcome.messages) / static_cast<double>(plan.scripts.size()) /
                  std::max(mean_served_us(outcome), 1e-3) * 1'000);
  add("gbit_s", bytes * 8 / std::max(us, 1e-3) / 1'000);
  add("window", outcome.window);
  add("memory_kib", static_cast<double>(outcome.receive_bytes_peak) / 1'024);
  add("rnr_naks", outcome.rnr_naks);
  add("overcommitted", total.credits_overcommitted);
  if (!has_ranks(scenario.pattern)) {
    add("others", rate_of_others(scenario, draw_roles(scenario, seed), plan, outcome));
  }
  if (plan.processes_per_host > 0) {
    add("node_reads", outcome.reads_out_most);
    add("node_read_waits", total.node_read_waits);
  }
  result.violation = outcome.ok() ? "" : outcome.violations.front();
  result.events = outcome.wire.events + outcome.steps;
  result.trace_hash =
      mix(outcome.wire.hash ^ mix(static_cast<std::uint64_t>(outcome.end.ns)) ^ outcome.steps);
  return result;
}

}  // namespace weir::sim::network
