// [TOK]'s figures 1, 2 and 5 in shape: the token core that ships, driven by the protocol core of 16
// processes, on one adapter that is a declared model (shared_adapter.h). What the curves say of an
// adapter is what the model puts in; what they say of the tokens is not.
#include <algorithm>
#include <utility>

#include "tools/sim/figures/figure.h"
#include "tools/sim/world.h"

namespace weir::sim::figures {
namespace {

constexpr std::uint32_t contexts = 20;  // [TOK §4]: more than 20 active cores are too many

enum class Limit : std::uint8_t { none, tokens, thresholds, rate };

// `cores` processes of one node, each with one partner on another, and so many messages of each
// `outstanding`.
Plan plan_of(std::uint32_t cores, std::uint32_t outstanding, Size size, Limit limit,
             std::uint64_t seed) {
  const std::uint32_t messages = size == Size::smoke ? 200 : 400;  // of a core, all in all
  Plan plan;
  plan.seed = seed;
  plan.adapter = {.contexts = contexts};
  plan.processes_per_adapter = cores;
  plan.connect_first = true;
  plan.hazards = {};
  plan.timing.jitter = {0};
  plan.timing.per_frame = {0};  // the adapter's time is the model's
  Core::Config& core = plan.engine.core;
  core.buffer_bytes = 512;
  core.window = {.initial = 4096, .max = 4096};  // no limit of its own
  core.credits.max_credits = 128;
  core.queue.control_reserve = 4;
  core.queue.depth = core.queue.control_reserve + outstanding;
  core.queue.signal_interval = 1;
  core.bundle_bytes = core.bundle_message_bytes = 0;  // a message is a request
  core.burst_frames = core.pending_frames = messages;
  core.shrink_after = {};
  Admission::Config& admission = core.admission;
  admission.tokens = contexts;
  if (limit != Limit::none) admission.policy = Admission::Policy::always;
  if (limit == Limit::thresholds) admission.policy = Admission::Policy::thresholds;
  if (limit != Limit::rate) plan.processes_per_host = cores;
  for (unsigned size_class = 0; size_class < size_classes; ++size_class) {
    if (limit == Limit::thresholds) {
      admission.thresholds.set_cct(size_class, contexts);
      admission.thresholds.set_nrct(size_class, contexts);
    }
    // What the adapter bears, divided among all.
    admission.rate.set_delay(size_class, {2 * plan.adapter.serve.ns * cores});
  }
  for (Node node = 0; node < 2 * cores; ++node) {
    Script script;
    script.messages.assign(2 * cores, 0);
    if (node < cores) script.messages[node + cores] = messages;
    script.burst = messages;
    script.spins = true;
    script.start = microseconds(10);  // all at once, IRT's requests would stay in step
    script.small_permille = 1000;
    script.notify_permille = 0;
    plan.scripts.push_back(script);
    plan.limit_styles.push_back(SrqLimitStyle::hardware);
  }
  return plan;
}

Values values_of(const Outcome& outcome) {
  const auto us = [&](Time t) { return static_cast<double>((t - outcome.begun).ns) / 1000; };
  Time first = outcome.last_served;
  for (const Time served : outcome.served) {
    if (served > outcome.begun) first = std::min(first, served);
  }
  return {{"throughput", static_cast<double>(outcome.messages) / us(outcome.last_served)},
          {"first_done", us(first) / us(outcome.last_served)},
          {"token_waits", static_cast<double>(outcome.total.token_waits)},
          {"tokens_out_most", static_cast<double>(outcome.tokens_out_most)}};
}

// For each x one point of each kind; `load(x)` is the cores and what each has outstanding.
template <typename Load>
std::vector<Point> points_of(Size size, const Axis& axis, Load load) {
  constexpr std::pair<const char*, Limit> all[] = {{"none", Limit::none},
                                                   {"ITT", Limit::tokens},
                                                   {"Algorithm 1", Limit::thresholds},
                                                   {"IRT", Limit::rate}};
  std::vector<Point> points;
  for (const auto& [name, limit] : all) {
    for (const std::uint32_t x : axis) {
      const auto [cores, outstanding] = load(x);
      // A rate does not see what is under way: where chance brings more cores together than the
      // adapter bears, what it serves falls below the rate and stays there. One run in eight is
      // such a one.
      const std::uint32_t seeds = limit == Limit::rate && outstanding > 1 ? 5 : 1;
      points.push_back(
          {name, static_cast<double>(x), seeds, [=, limit = limit](std::uint64_t seed) {
             return play(plan_of(cores, outstanding, size, limit, seed), values_of);
           }});
    }
  }
  return points;
}

}  // namespace

Plan tok_world(std::uint64_t seed) { return plan_of(16, 64, Size::smoke, Limit::tokens, seed); }

std::vector<Point> tok_rate(Size size) {
  return points_of(size, axis(size, {1, 2, 4, 8, 16, 32, 64}, {1, 64}),
                   [](std::uint32_t x) { return std::pair(16u, x); });
}

std::vector<Point> tok_cores(Size size) {
  return points_of(size, axis(size, {4, 8, 16, 24, 32}, {4, 32}),
                   [](std::uint32_t x) { return std::pair(x, 1u); });
}

}  // namespace weir::sim::figures
