#include "tests/contract/random_world.h"

#include <algorithm>

namespace weir::sim {
namespace {

// More that goes wrong, often soon after something else did.
void add_faults(std::uint64_t seed, Plan& plan) {
  Random random(mix(mix(seed) + 2));
  const auto count = static_cast<Node>(plan.scripts.size());
  for (Fault& fault : plan.faults) fault.pick = random.between(0, UINT16_MAX);
  if (!random.chance(400)) return;
  for (std::uint32_t more = random.between(1, 3); more > 0; --more) {
    Fault fault{};
    fault.kind = static_cast<Fault::Kind>(random.below(4));
    fault.when = {random.between(0, 20'000'000)};
    if (random.chance(500)) fault.when.ns /= 40;
    if (!plan.faults.empty() && random.chance(500)) {
      fault.when = plan.faults.back().when + microseconds(random.between(0, 2000));
    }
    fault.node = static_cast<Node>(random.below(count));
    fault.other = static_cast<Node>((fault.node + 1 + random.below(count - 1)) % count);
    fault.pick = random.between(0, UINT16_MAX);
    plan.faults.push_back(fault);
  }
}

// Queue pairs and ways that break, and nobody may lose anything. Atomics could be in doubt.
void add_outages(std::uint64_t seed, Plan& plan) {
  Random random(mix(mix(seed) + 3));
  const auto count = static_cast<Node>(plan.scripts.size());
  plan.engine.core.resumes = true;
  plan.faults.clear();
  plan.engine.core.connect_timeout = plan.engine.core.peer_timeout = seconds(30);
  for (Script& script : plan.scripts) script.one_sided.atomics = false;
  Time when{random.between(0, 5'000'000)};
  for (std::uint32_t more = random.between(1, 6); more > 0; --more) {
    Fault fault{};
    fault.kind = random.chance(700) ? Fault::Kind::lose_way : Fault::Kind::outage;
    fault.when = when;
    fault.node = static_cast<Node>(random.below(count));
    fault.other = static_cast<Node>((fault.node + 1 + random.below(count - 1)) % count);
    fault.pick = random.between(0, UINT16_MAX);
    fault.lasts = milliseconds(random.between(1, random.chance(300) ? 5000 : 800));
    plan.faults.push_back(fault);
    when = when + microseconds(random.between(0, random.chance(500) ? 300 : 1'000'000));
  }
}

// Applications that compute for long, and events of the adapter that come late or never.
void add_absences(std::uint64_t seed, Plan& plan) {
  Random random(mix(mix(seed) + 4));
  plan.stands_in = true;
  plan.faults.clear();
  if (random.chance(300)) plan.hazards.late_event.permille = random.between(1, 1000);
  if (random.chance(200)) plan.hazards.lost_event.permille = random.between(1, 300);
  for (Script& script : plan.scripts) {
    script.wakes = true;
    script.notify_permille = std::max(script.notify_permille, random.between(1, 1000));
    const bool long_ones = random.chance(200);
    script.compute_permille = random.between(1, long_ones ? 5 : 100);
    script.compute = milliseconds(random.between(1, long_ones ? 4000 : 100));
  }
  if (random.chance(300)) {
    plan.wakes = wire::Wakes::all;
    for (Script& script : plan.scripts) script.wakes = false;
  }
}

// Numbers that wrap soon: of frames at 2^32, of what relays were given at 2^24.
void add_wraps(std::uint64_t seed, Plan& plan) {
  Random random(mix(mix(seed) + 6));
  if (random.chance(300)) plan.engine.core.first_frame = 0u - random.between(1, 40);
  if (random.chance(300)) plan.engine.core.first_relayed = (1u << 24) - random.between(1, 20);
}

// Limits that fall and rise while traffic is under way.
void add_limit_changes(std::uint64_t seed, Plan& plan) {
  Random random(mix(mix(seed) + 7));
  Random pace(mix(mix(seed) + 8));
  if (!random.chance(300)) return;
  const Core::Config& core = plan.engine.core;
  Time when{};
  for (std::uint32_t more = random.between(1, 6); more > 0; --more) {
    when = when + microseconds(random.between(0, random.chance(500) ? 300 : 20'000));
    CoreLimits limits{.window = core.window,
                      .window_unasked = core.window_unasked,
                      .reads = core.transfers.reads,
                      .tokens = core.admission.tokens};
    if (!random.chance(300)) {
      limits.window.max = random.between(1, core.window.max);
      limits.reads.adaptive = limits.reads.adaptive && random.chance(500);
      limits.reads.reads = random.between(1, core.transfers.reads.reads);
      limits.reads.most_bytes = random.between(4096, 65536);
      limits.tokens = random.between(1, core.admission.tokens);
      if (pace.chance(300)) limits.bytes_per_second = pace.between(1 << 20, 1 << 30);
    }
    const auto node =
        static_cast<Node>(random.below(static_cast<std::uint32_t>(plan.scripts.size())));
    plan.limit_changes.push_back({when, node, limits});
  }
}

}  // namespace

// Small numbers on purpose: full queues, empty credits and crossing connections are where the
// mistakes are.
Plan random_plan(std::uint64_t seed, Trouble trouble) {
  Random random(mix(seed) + 1);
  Plan plan;
  plan.seed = seed;
  const auto count = static_cast<Node>(random.between(2, 5));
  const bool troubled = random.chance(300);

  Core::Config& core = plan.engine.core;
  core.buffer_bytes = random.chance(500) ? 1024 : 4096;
  core.window.initial = random.between(1, 16);
  core.window.max =
      random.chance(300) ? count * 4 + random.between(2, 16) : random.between(64, 512);
  core.credits.control_reserve = std::max(2u, random.between(1, 3));
  core.credits.min_credits = random.between(1, 3);
  core.credits.max_credits = random.between(2, 64);
  core.queue.control_reserve = 4;
  core.queue.depth = 4 + random.between(1, 32);
  core.queue.signal_interval = random.between(1, 20);
  core.queue.signal_bytes = random.chance(300) ? 2048 : 32768;
  core.inline_bytes = random.chance(500) ? 0 : 256;
  core.bundle_bytes = random.between(64, core.buffer_bytes);
  core.bundle_message_bytes = random.between(0, 512);
  core.burst_frames = random.between(0, 6);
  core.flood_messages = core.burst_frames * 2;
  core.pending_frames = random.between(1, 64);
  core.attempt_timeout = milliseconds(random.between(10, 60));
  core.connect_timeout = seconds(3);
  core.peer_timeout = seconds(4);

  Timing& timing = plan.timing;
  timing.link = {random.between(200, 5000)};
  timing.jitter = {random.between(0, 20000)};
  timing.slow_permille = random.chance(300) ? random.between(1, 50) : 0;
  timing.connection_message = microseconds(random.between(10, 2000));
  timing.connection_jitter = microseconds(random.between(10, 5000));
  timing.connection_repeat = milliseconds(random.between(5, 40));
  timing.event_thread = microseconds(random.chance(500) ? 20 : random.between(1, 3000));
  if (random.chance(300)) plan.hazards.lost_limit.permille = random.between(1, 1000);
  if (random.chance(200)) plan.hazards.doubled_limit.permille = random.between(1, 500);
  if (random.chance(300)) plan.hazards.lost_connection_message.permille = random.between(1, 150);
  if (random.chance(50)) plan.engine.slab_limit = random.between(core.window.initial, 64);
  plan.engine.poll_batch = random.chance(300) ? random.between(1, 4) : 32;
  plan.rounds = random.chance(200) ? 2 : 1;

  for (Node node = 0; node < count; ++node) {
    Script script;
    for (Node to = 0; to < count; ++to) {
      const bool talks = to == node ? random.chance(200) : random.chance(700);
      script.messages.push_back(talks ? random.between(1, random.chance(200) ? 400 : 60) : 0);
    }
    script.burst = random.between(1, random.chance(300) ? 60 : 8);
    script.small_permille = random.between(0, 1000);
    script.notify_permille = random.chance(500) ? 0 : random.between(1, 1000);
    script.compute_permille = random.chance(500) ? 0 : random.between(1, 300);
    script.compute = microseconds(random.between(1, random.chance(100) ? 100000 : 3000));
    script.keep_permille = random.chance(600) ? 0 : random.between(1, 1000);
    script.keep_turns = random.between(1, 40);
    script.turn = {random.between(200, 3000)};
    plan.scripts.push_back(script);
    plan.limit_styles.push_back(random.chance(500) ? SrqLimitStyle::rxe : SrqLimitStyle::hardware);
  }
  if (troubled) {
    Fault fault{};
    fault.kind = static_cast<Fault::Kind>(random.below(4));
    fault.when = {random.between(0, 20'000'000)};
    if (random.chance(500)) fault.when.ns /= 40;
    fault.node = static_cast<Node>(random.below(count));
    fault.other = static_cast<Node>((fault.node + 1 + random.below(count - 1)) % count);
    plan.faults.push_back(fault);
  }
  if (random.chance(500)) core.shrink_after = microseconds(random.between(20, 5000));
  if (random.chance(200)) plan.hazards.rnr_storm.permille = random.between(1, 300);
  if (random.chance(300)) plan.hazards.delayed_completion.permille = random.between(1, 700);
  if (random.chance(250)) {
    plan.hazards.lost_request.permille = random.between(0, 30);
    plan.hazards.lost_answer.permille = random.between(0, 30);
  }
  core.transfers.plan = {.chunk_bytes = random.between(64, 16384), .alignment_bytes = 64};
  core.transfers.reads.adaptive = random.chance(500);
  core.transfers.reads.reads = random.between(1, 12);
  core.transfers.reads.initial_bytes = core.transfers.reads.least_bytes = 4096;
  core.transfers.reads.queue_bytes = core.transfers.reads.chunk_bytes = 4096;
  core.transfers.small_bytes = random.between(0, 8192);
  core.transfers.bypass_bytes = random.between(1, 16384);
  core.transfers.write_bytes = random.between(1, 65536);
  core.max_rd_atomic = random.between(1, 8);
  const bool needs_bulk_pairs =
      std::count(plan.limit_styles.begin(), plan.limit_styles.end(), SrqLimitStyle::rxe) > 0;
  const OneSidedScript one_sided{.operations = random.chance(500) ? random.between(1, 30) : 0,
                                 .at_a_time = random.between(1, 12),
                                 .largest = random.between(64, 40000) & ~7u};
  for (Script& script : plan.scripts) script.one_sided = one_sided;
  core.rnr_auto = random.chance(300);
  core.window_unattended = random.chance(500) ? 128 : random.between(4, 64);
  core.transfers.chain_bytes = random.chance(600) ? random.between(64, 20000) : 0;
  if (random.chance(300)) {  // chains are likely
    core.transfers.reads.adaptive = false;
    core.transfers.reads.reads = random.between(1, 3);
    core.transfers.plan.chunk_bytes = random.between(64, 1024);
    core.transfers.chain_bytes = 64;
    for (Script& script : plan.scripts) script.one_sided.at_a_time = random.between(1, 3);
  }
  core.transfers.measure_every = random.between(2, 16);
  plan.hazards.missed_bulk_pair.permille = random.chance(200) ? random.between(1, 1000) : 0;
  if (needs_bulk_pairs) plan.hazards.missed_bulk_pair.permille = 0;
  if (random.chance(500)) plan.processes_per_host = random.between(1, count);
  if (random.chance(300)) {
    Admission::Config& admission = core.admission;
    admission.policy =
        random.chance(500) ? Admission::Policy::always : Admission::Policy::thresholds;
    admission.tokens = random.between(1, 12);
    admission.cost.bytes_per_token = random.chance(500) ? 0 : random.between(64, 8192);
    const std::uint32_t cores = random.between(1, count + 1);
    const std::uint32_t messages = random.between(0, 20);
    const Duration delay = microseconds(random.between(0, 50));
    for (unsigned size = 0; size < size_classes; ++size) {
      admission.thresholds.set_cct(size, cores);
      admission.thresholds.set_nrct(size, messages);
      admission.rate.set_delay(size, delay);
    }
  }
  if (plan.processes_per_host > 1 && random.chance(500)) {
    plan.engine.proxy_servers = random.between(1, 2);
    core.proxy = true;
    core.server_silence = microseconds(random.chance(200) ? 50 : random.between(500, 50000));
  }
  plan.mixed_adapters = random.chance(300);
  if (random.chance(300)) core.window_unasked = random.between(4, 64);
  if (random.chance(150)) plan.hazards.send_again.permille = random.between(1, 200);
  if (random.chance(250)) core.connections_max = random.between(1, count);
  if (random.chance(400)) core.paths = random.between(2, 8);
  core.spread_bytes = random.between(64, 20000);
  if (trouble == Trouble::several) add_faults(seed, plan);
  if (trouble == Trouble::outages) add_outages(seed, plan);
  if (trouble == Trouble::absences) add_absences(seed, plan);
  add_wraps(seed, plan);
  add_limit_changes(seed, plan);
  return plan;
}

std::string describe(const Plan& plan) {
  const Core::Config& core = plan.engine.core;
  std::string text = std::to_string(plan.scripts.size()) + " processes, window " +
                     std::to_string(core.window.initial) + ".." + std::to_string(core.window.max) +
                     ", queue " + std::to_string(core.queue.depth) + ", rounds " +
                     std::to_string(plan.rounds);
  if (plan.engine.proxy_servers > 0) {
    text += ", hosts of " + std::to_string(plan.processes_per_host) + " with " +
            std::to_string(plan.engine.proxy_servers) + " servers";
  }
  if (core.first_frame != 0) text += ", frames wrap";
  if (core.first_relayed != 0) text += ", relays wrap";
  if (core.connections_max > 0) {
    text += ", at most " + std::to_string(core.connections_max) + " connections";
  }
  if (!plan.limit_changes.empty()) {
    text += ", other limits " + std::to_string(plan.limit_changes.size()) + " times";
  }
  for (const Fault& fault : plan.faults) {
    constexpr const char* kinds[] = {"killed",      "host killed", "cut",
                                     "pair broken", "way lost",    "outage"};
    text += std::string(", ") + kinds[static_cast<int>(fault.kind)] + " node " +
            std::to_string(fault.node) +
            (fault.kind == Fault::Kind::cut || fault.kind == Fault::Kind::outage
                 ? " from " + std::to_string(fault.other)
                 : "") +
            " at " + std::to_string(fault.when.ns / 1000) + " us";
  }
  return text;
}

}  // namespace weir::sim
