// [TOK]'s figures 1, 2 and 5 in shape: the token core that ships, driven by the protocol core of 16
// processes, on one adapter that is a declared model (shared_adapter.h). What the curves say of an
// adapter is what the model puts in; what they say of the tokens is not.
#include <algorithm>
#include <array>

#include "tools/sim/figures/figure.h"
#include "tools/sim/world.h"

namespace weir::sim::figures {
namespace {

constexpr std::uint32_t contexts = 20;  // [TOK §4]: more than 20 active cores are too many

enum class Limit : std::uint8_t { none, tokens, thresholds, rate };

struct Load {
  std::uint32_t cores = 16;
  std::uint32_t outstanding = 1;  // messages of a core
  std::uint32_t messages = 0;     // of a core, all in all
};

// `cores` processes of one node, each with one partner on another.
Plan plan_of(const Load& load, Limit limit, std::uint64_t seed) {
  Plan plan;
  plan.seed = seed;
  plan.adapter = {.contexts = contexts};
  plan.processes_per_adapter = load.cores;
  plan.connect_first = true;
  plan.hazards = {};
  plan.timing.jitter = {0};
  plan.timing.per_frame = {0};  // the adapter's time is the model's
  Core::Config& core = plan.engine.core;
  core.buffer_bytes = 512;
  core.window = {.initial = 4096, .max = 4096};  // no limit of its own
  core.credits.max_credits = 128;
  core.queue.control_reserve = 4;
  core.queue.depth = core.queue.control_reserve + load.outstanding;
  core.queue.signal_interval = 1;
  core.bundle_bytes = core.bundle_message_bytes = 0;  // a message is a request
  core.burst_frames = core.pending_frames = load.messages;
  core.shrink_after = {};
  Admission::Config& admission = core.admission;
  admission.tokens = contexts;
  if (limit != Limit::none) admission.policy = Admission::Policy::always;
  if (limit != Limit::rate) plan.processes_per_host = load.cores;
  for (unsigned size = 0; size < size_classes; ++size) {
    if (limit == Limit::thresholds) {
      admission.policy = Admission::Policy::thresholds;
      admission.thresholds.set_cct(size, contexts);
      admission.thresholds.set_nrct(size, contexts);
    }
    // What the adapter bears, divided among all.
    admission.rate.set_delay(size, {2 * plan.adapter.serve.ns * load.cores});
  }
  for (Node node = 0; node < 2 * load.cores; ++node) {
    Script script;
    script.messages.assign(2 * load.cores, 0);
    if (node < load.cores) script.messages[node + load.cores] = load.messages;
    script.burst = load.messages;
    script.spins = true;
    script.start = microseconds(10);  // all at once, IRT's requests would stay in step
    script.small_permille = 1000;
    script.notify_permille = 0;
    plan.scripts.push_back(script);
    plan.limit_styles.push_back(SrqLimitStyle::hardware);
  }
  return plan;
}

// What requests waited for tokens: those that had them at once, 0. What stands behind a process's
// waiting request in its queue is not counted.
Values waiting(const Outcome& outcome) {
  std::vector<double> all;
  std::vector<double> means;
  for (const TokenWaits& waits : outcome.waits) {
    if (waits.requests == 0) continue;
    double sum = 0;
    for (const Duration waited : waits.waited) {
      all.push_back(static_cast<double>(waited.ns) / 1000);
      sum += all.back();
    }
    if (waits.requests > waits.waited.size()) {
      all.resize(all.size() + waits.requests - waits.waited.size());
    }
    means.push_back(sum / static_cast<double>(waits.requests));
  }
  if (all.empty()) all.push_back(0);
  if (means.empty()) means.push_back(0);
  std::sort(all.begin(), all.end());
  const auto [least, most] = std::minmax_element(means.begin(), means.end());
  return {{"wait_median_us", all[all.size() / 2]},
          {"wait_p99_us", all[all.size() * 99 / 100]},
          {"wait_longest_us", all.back()},
          {"wait_least_core_us", *least},
          {"wait_most_core_us", *most}};
}

// A rate does not see what is under way: where chance brings more cores together than the adapter
// bears, what it serves falls below the rate and stays there. One run in eight is such a one.
constexpr std::uint32_t rate_seeds = 5;

Point tok_point(const char* series, double x, const Load& load, Limit limit) {
  return {.series = series,
          .x = x,
          .seeds = limit == Limit::rate ? rate_seeds : 1,
          .cost = 0.1,
          .play = [load, limit](std::uint64_t seed) {
            return figures::play(plan_of(load, limit, seed), [](const Outcome& outcome) {
              const auto us = [&](Time t) {
                return static_cast<double>((t - outcome.begun).ns) / 1000;
              };
              Values values{
                  {"throughput", static_cast<double>(outcome.messages) / us(outcome.last_served)},
                  {"first_done", us(outcome.first_served) / us(outcome.last_served)},
                  {"token_waits", static_cast<double>(outcome.total.token_waits)},
                  {"tokens_out_most", static_cast<double>(outcome.tokens_out_most)},
                  {"token_looks", static_cast<double>(outcome.token_looks)}};
              const Values waited = waiting(outcome);
              values.insert(values.end(), waited.begin(), waited.end());
              return values;
            });
          }};
}

constexpr std::uint32_t messages(Size size) { return size == Size::smoke ? 200 : 400; }

struct Series {
  const char* name;
  Limit limit;
};
constexpr std::array all_series = {Series{"none", Limit::none}, Series{"ITT", Limit::tokens},
                                   Series{"Algorithm 1", Limit::thresholds},
                                   Series{"IRT", Limit::rate}};

}  // namespace

Plan tok_world(std::uint64_t seed) {
  return plan_of({.outstanding = 64, .messages = messages(Size::smoke)}, Limit::tokens, seed);
}

Figure tok_rate(Size size) {
  Figure figure;
  for (const Series& series : all_series) {
    for (const std::uint32_t outstanding : axis(size, {1, 2, 4, 8, 16, 32, 64}, {1, 64})) {
      figure.points.push_back(tok_point(series.name, outstanding,
                                        {.outstanding = outstanding, .messages = messages(size)},
                                        series.limit));
    }
  }
  return figure;
}

Figure tok_cores(Size size) {
  Figure figure;
  for (const Series& series : all_series) {
    for (const std::uint32_t cores : axis(size, {4, 8, 16, 24, 32}, {4, 32})) {
      figure.points.push_back(tok_point(
          series.name, cores, {.cores = cores, .messages = messages(size)}, series.limit));
    }
  }
  return figure;
}

}  // namespace weir::sim::figures
