#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "tools/sim/figures/figure.h"
#include "tools/sim/thread_time.h"
#include "tools/sim/world.h"

namespace weir::sim::figures {
namespace {

constexpr std::array entries = {
    Entry{"rdrp-fig1", "throughput against the number of slow nodes, 2x and 8x slower", rdrp_fig1},
    Entry{"rdrp-fig4", "FECN/BECN, two settings, against nothing", rdrp_fig4},
    Entry{"rdrp-fig5", "throughput against c with 1 % slow nodes", rdrp_fig5},
    Entry{"routing", "which routing collapses beside slow nodes and which does not",
          routing_variants},
    Entry{"budget", "the read budget of a node against that of a transfer, under incast",
          budget_per_node},
    Entry{"adaptive", "the adaptive c against every constant c, over five fabrics",
          adaptive_budget},
    Entry{"lane", "read requests on a virtual lane of their own", request_lane},
    Entry{"outage", "links that lose packets or are down, and what adapters make of it",
          lossy_links},
    Entry{"workloads", "messages of ranks beside one slow node: pushed, or fetched within c",
          workloads},
    Entry{"ord-fig8a", "throughput of ordered streams, ordered by source or target", ord_fig8a},
    Entry{"ord-fig8b", "latency of one ordered stream", ord_fig8b},
    Entry{"ord-fig10", "latency until the synchronization behind a stream", ord_fig10},
    Entry{"ord-fig11", "reorder buffer and connections of a target", ord_fig11},
    Entry{"arws-fig2", "receive memory against W_max", arws_fig2},
    Entry{"arws-fig2-time", "time against W_max", arws_fig2_time},
    Entry{"arws-fig3", "time against the RNR timer, with small windows", arws_fig3},
    Entry{"arws-fig3-memory", "receive memory against the RNR timer", arws_fig3_memory},
    Entry{"core-window", "receive memory and time against W_max, all of the core on a dragonfly",
          core_window},
    Entry{"core-budget", "whose c it is: throughput beside an incast, all of the core",
          core_budget},
    Entry{"core-steps", "steps of ranks that wait for each other: all of the core beside models",
          core_steps},
    Entry{"core-tokens", "tokens and a proxy against processes of a node, on declared adapters",
          core_tokens},
    Entry{"tok-rate", "tokens against outstanding messages, on a declared adapter", tok_rate},
    Entry{"tok-cores", "tokens against active cores, on a declared adapter", tok_cores},
    Entry{"tok-wait", "how long requests wait for tokens, on a declared adapter", tok_wait},
};

constexpr std::array waiting_entries = {
    Waiting{"ord-fig12", "ordered streams with few connections at a target",
            "lanes with slow and fast mode and NACKs"},
};

}  // namespace

std::span<const Entry> all() { return entries; }
std::span<const Waiting> waiting() { return waiting_entries; }

const Entry* find(const std::string& name) {
  const auto at = std::find_if(entries.begin(), entries.end(),
                               [&](const Entry& entry) { return name == entry.name; });
  return at == entries.end() ? nullptr : &*at;
}

std::vector<double> Results::all(const std::string& series, double x,
                                 const std::string& value) const {
  std::vector<double> found;
  for (const Row& row : rows) {
    if (row.series != series || row.x != x) continue;
    for (const auto& [name, number] : row.sample.values) {
      if (name == value) found.push_back(number);
    }
  }
  return found;
}

double Results::mean(const std::string& series, double x, const std::string& value) const {
  const std::vector<double> found = all(series, x, value);
  return std::accumulate(found.begin(), found.end(), 0.0) / static_cast<double>(found.size());
}

double Results::median(const std::string& series, double x, const std::string& value) const {
  std::vector<double> found = all(series, x, value);
  if (found.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2);
  std::nth_element(found.begin(), middle, found.end());
  return *middle;
}

namespace {

// What a model of adapters has measured.
Values values_of(const network::Measured& measured) {
  Values values = {{"throughput", measured.throughput},
                   {"best_window", measured.best_window},
                   {"first_percentile", measured.first_percentile},
                   {"latency_cycles", measured.latency_cycles},
                   {"reads", measured.mean_reads},
                   {"detours", measured.detours},
                   {"lost_packets", static_cast<double>(measured.lost_packets)},
                   {"retried", static_cast<double>(measured.retried)},
                   {"failed", static_cast<double>(measured.failed)}};
  const network::Messages& messages = measured.messages;
  if (messages.all == 0) return values;
  values.insert(values.end(), {{"messages", static_cast<double>(messages.all)},
                               {"received", static_cast<double>(messages.received)},
                               {"finished_us", messages.finished_us},
                               {"median_us", messages.median_us},
                               {"p99_us", messages.p99_us},
                               {"longest_us", messages.longest_us}});
  return values;
}

Values values_of(const network::Measured& measured, const network::CoreMeasured& core) {
  Values values = {{"throughput", measured.throughput},
                   {"detours", measured.detours},
                   {"lost_packets", static_cast<double>(measured.lost_packets)},
                   {"messages", static_cast<double>(measured.messages.all)},
                   {"received", static_cast<double>(measured.messages.received)},
                   {"finished_us", measured.messages.finished_us},
                   {"window", core.window},
                   {"memory_kib", core.receive_kib},
                   {"rnr_naks", static_cast<double>(core.rnr_naks)},
                   {"overcommitted", static_cast<double>(core.overcommitted)}};
  if (measured.messages.longest_us > 0) {
    values.insert(values.end(), {{"median_us", measured.messages.median_us},
                                 {"p99_us", measured.messages.p99_us},
                                 {"longest_us", measured.messages.longest_us}});
  }
  if (core.others) values.emplace_back("others", *core.others);
  if (core.shared) {
    values.insert(values.end(), {{"node_reads", static_cast<double>(core.shared->reads)},
                                 {"node_read_waits", static_cast<double>(core.shared->read_waits)},
                                 {"token_waits", static_cast<double>(core.shared->token_waits)}});
  }
  if (core.tokens) {
    values.insert(values.end(), {{"token_requests", static_cast<double>(core.tokens->requests)},
                                 {"straight_through", static_cast<double>(core.tokens->straight)}});
  }
  if (core.proxy) {
    values.insert(values.end(), {{"proxy_served", static_cast<double>(core.proxy->served)},
                                 {"proxy_coalesced", static_cast<double>(core.proxy->coalesced)},
                                 {"proxy_repeated", static_cast<double>(core.proxy->repeated)}});
  }
  if (core.contexts) {
    values.insert(values.end(), {{"contexts_needed", static_cast<double>(core.contexts->served)},
                                 {"context_misses", static_cast<double>(core.contexts->misses)}});
  }
  return values;
}

}  // namespace

Sample sample(const network::Measured& measured) {
  return {.values = measured.core ? values_of(measured, *measured.core) : values_of(measured),
          .events = measured.events,
          .trace_hash = measured.trace_hash,
          .cpu_s = measured.cpu_s,
          .violation = measured.violation,
          .windows = measured.windows,
          .peak_mib = 0};
}

Sample sample(const Plan& plan, const std::function<Values(const Outcome&)>& values) {
  const double begin = thread_cpu_seconds();
  const Outcome outcome = run(plan);
  return {.values = values(outcome),
          .events = outcome.steps,
          .trace_hash = mix(static_cast<std::uint64_t>(outcome.end.ns) ^ outcome.steps),
          .cpu_s = thread_cpu_seconds() - begin,
          .violation = outcome.ok() ? "" : outcome.violations.front(),
          .windows = {},
          .peak_mib = 0};
}

Point point(std::string series, double x, const network::Scenario& scenario, std::uint32_t seeds) {
  const double reads = scenario.protocol == network::Protocol::reads ? 2 : 1;
  return {.series = std::move(series),
          .x = x,
          .seeds = seeds,
          .cost = reads * 7e-8 * scenario.fabric.topology.nodes() *
                  static_cast<double>(scenario.to_cycles),
          .play = [scenario](std::uint64_t seed) { return sample(run(scenario, seed)); }};
}

network::Scenario small_dragonfly() {
  network::Scenario scenario;
  scenario.fabric.topology = {.p = 4, .a = 8, .h = 4};
  return scenario;
}

network::Scenario rdrp(Size size) {
  if (size == Size::full) return {};
  network::Scenario scenario = small_dragonfly();
  scenario.from_cycles = 3'000;
  scenario.to_cycles = 6'000;
  return scenario;
}

}  // namespace weir::sim::figures
