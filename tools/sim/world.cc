#include "tools/sim/world.h"

#include <algorithm>
#include <memory>

namespace weir::sim {
namespace {

// The processes of a run and the steps they take together.
class World {
 public:
  World(const Plan& plan, std::function<void(const std::string&)> trace)
      : plan_(plan), fabric_(plan.timing, plan.hazards, mix(plan.seed)), connections_(fabric_) {
    fabric_.trace_sink = std::move(trace);
    if (plan.wire) fabric_.wire = plan.wire(fabric_);
    const auto count = static_cast<Node>(plan.scripts.size());
    for (Node node = 0; node < count; ++node) {
      Engine::Config config = plan.engine;
      config.core.self = name_of(node);
      config.nic.limit_style = plan.limit_styles[node];
      config.nic.loses_fetches = plan.limit_styles[node] == SrqLimitStyle::rxe;
      config.core.fetches_apart = config.nic.loses_fetches;
      config.nic.shared = adapter_of(node);
      config.nic.srq_depth = std::max(config.core.window.max, config.core.window.most);
      if (plan.mixed_adapters) {
        const std::uint64_t drawn = mix(mix(plan.seed) + node);
        config.core.max_rd_atomic =
            1 + static_cast<std::uint32_t>(drawn % config.core.max_rd_atomic);
      }
      config.nic.max_rd_atomic = config.core.fetches_answered = config.core.max_rd_atomic;
      engines_.push_back(
          std::make_unique<Engine>(fabric_, connections_, node, config, host_of(node)));
      applications_.push_back(std::make_unique<Application>(
          fabric_, *engines_.back(), plan.scripts[node], mix(plan.seed + 7)));
    }
    for (Node node = 0; node < count; ++node) {
      engines_[node]->expect_peers(count);
      for (Node other = 0; other < count; ++other) {
        applications_[node]->add_peer(other, engines_[node]->add_peer(name_of(other), other));
        applications_[node]->scripts.push_back(&plan_.scripts[other]);
      }
    }
    if (plan.ranks) {
      ranks_ = plan.ranks(fabric_);
      for (auto& application : applications_) application->follow(*ranks_);
    }
    std::vector<OneSided*> all;
    for (auto& application : applications_) all.push_back(&application->one_sided());
    for (OneSided* one : all) one->meet(all);
    for (const Fault& fault : plan.faults) arrange(fault);
  }

  Outcome run() {
    if (plan_.connect_first && !go_through(Application::Phase::traffic, 1)) return outcome();
    for (std::uint32_t round = 0; round < plan_.rounds; ++round) {
      const SharedAdapter::Counts before = contexts();
      if (!go_through(Application::Phase::traffic)) return outcome();
      contexts_.served += contexts().served - before.served;
      contexts_.misses += contexts().misses - before.misses;
      check_quiet();
      if (!go_through(Application::Phase::closing)) return outcome();
    }
    settle();
    return outcome();
  }

 private:
  static PeerName name_of(Node node) { return {7, node}; }

  Host* host_of(Node node) {
    if (plan_.processes_per_host == 0) return nullptr;
    while (hosts_.size() <= node / plan_.processes_per_host)
      hosts_.push_back(std::make_unique<Host>());
    return hosts_[node / plan_.processes_per_host].get();
  }

  SharedAdapter* adapter_of(Node node) {
    if (plan_.adapter.contexts == 0) return nullptr;
    const std::size_t place = node / plan_.processes_per_adapter;
    while (adapters_.size() <= place) {
      adapters_.push_back(std::make_unique<SharedAdapter>(plan_.adapter, plan_.seed + place));
    }
    return adapters_[place].get();
  }

  SharedAdapter::Counts contexts() const {
    SharedAdapter::Counts all;
    for (const auto& adapter : adapters_) {
      all.served += adapter->counts().served;
      all.misses += adapter->counts().misses;
    }
    return all;
  }

  // What the processes of a host that live have taken is what there is, at most.
  void check_tokens() {
    if (hosts_.empty() || plan_.engine.core.admission.policy == Admission::Policy::off) return;
    std::vector<std::uint64_t> out(hosts_.size());
    std::vector<bool> excused(hosts_.size());  // some did not wait for one that stood still
    for (Node node = 0; node < engines_.size(); ++node) {
      if (!alive(node)) continue;
      const Counters& counters = engines_[node]->core().counters();
      const std::uint64_t drawn = engines_[node]->tokens_drawn();
      if (drawn < counters.tokens_out ||
          (drawn > counters.tokens_out && !engines_[node]->core().waits_for_node())) {
        fabric_.violation("node " + std::to_string(node) + " has " +
                          std::to_string(counters.tokens_out) + " tokens out, its pool says " +
                          std::to_string(drawn));
      }
      out[node / plan_.processes_per_host] += counters.tokens_out;
      if (counters.tokens_excused > 0) excused[node / plan_.processes_per_host] = true;
    }
    ++token_looks_;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      tokens_out_most_ = std::max(tokens_out_most_, out[host]);
      if (out[host] > plan_.engine.core.admission.tokens && !excused[host]) {
        fabric_.violation("a host has more tokens out than there are");
      }
    }
  }

  // The same of reads, a host at a look: each has a token at least, but for those of chains.
  void check_reads() {
    if (hosts_.empty()) return;
    const Core::Config& core = plan_.engine.core;
    const std::uint32_t each = plan_.processes_per_host;
    const auto host = static_cast<Node>(read_looks_++ % hosts_.size());
    const auto end = std::min<Node>((host + 1) * each, static_cast<Node>(engines_.size()));
    const bool counts = !plan_.engine.own_reads && core.transfers.chain_bytes == 0;
    std::uint64_t out = 0;
    bool excused = false;
    for (Node node = host * each; node < end; ++node) {
      if (!alive(node)) continue;
      const Counters& counters = engines_[node]->core().counters();
      out += counters.reads_out;
      if (counts && counters.reads_out > engines_[node]->read_tokens_drawn()) {
        fabric_.violation("node " + std::to_string(node) + " has reads out without tokens");
      }
      excused = excused || counters.tokens_excused > 0;
    }
    reads_out_most_ = std::max(reads_out_most_, out);
    const BudgetController::Config& reads = core.transfers.reads;
    if (!counts || excused || reads.adaptive) return;
    if (out > std::uint64_t{reads.reads} * NodeReads::tokens(core.transfers.plan.chunk_bytes)) {
      fabric_.violation("a host has more reads out than its budget");
    }
  }

  bool alive(Node node) const { return !engines_[node]->dead(); }

  void arrange(const Fault& fault) {
    // Who may hear of it, from the start: trouble can show at any time after it.
    const auto count = static_cast<Node>(engines_.size());
    for (Node node = 0; node < count; ++node) {
      if (fault.kind == Fault::Kind::cut) {
        if (node == fault.node) applications_[node]->expect_trouble(fault.other);
        if (node == fault.other) applications_[node]->expect_trouble(fault.node);
      } else {
        applications_[node]->expect_trouble(fault.node);
        applications_[fault.node]->expect_trouble(node);
      }
    }
    if (fault.step == 0) fabric_.events.at(fault.when, [this, fault] { strike(fault); });
  }

  void strike(const Fault& fault) {
    const auto forget_later = [this, &fault](Node node, Node other) {
      const Duration late = {plan_.timing.retries.ns + plan_.engine.core.connect_timeout.ns * 2 +
                             plan_.engine.core.peer_timeout.ns};
      fabric_.events.after(late, [this, node, other] { applications_[node]->forget(other); });
      if (fault.kind == Fault::Kind::break_pair) return;
      fabric_.events.after(late, [this, node, other] { check_noticed(node, other); });
    };
    switch (fault.kind) {
      case Fault::Kind::kill_told:
      case Fault::Kind::kill_silent:
        fabric_.injected.kills += alive(fault.node) ? 1 : 0;
        applications_[fault.node]->stop();
        engines_[fault.node]->kill(fault.kind == Fault::Kind::kill_told);
        for (Node node = 0; node < engines_.size(); ++node) forget_later(node, fault.node);
        break;
      case Fault::Kind::cut:
        ++fabric_.injected.cuts;
        fabric_.cut(fault.node, fault.other);
        forget_later(fault.node, fault.other);
        forget_later(fault.other, fault.node);
        break;
      case Fault::Kind::break_pair:
        if (!alive(fault.node)) break;
        if (engines_[fault.node]->nic().break_some_qp(fault.pick, CompletionStatus::general_err)) {
          ++fabric_.injected.broken_pairs;
        }
        for (Node node = 0; node < engines_.size(); ++node) {
          forget_later(node, fault.node);
          forget_later(fault.node, node);
        }
        break;
    }
  }

  // By now whoever had a connection there knows of the end, even if it had nothing to send.
  void check_noticed(Node node, Node other) {
    if (node == other || !alive(node)) return;
    if (engines_[node]->core().state(PeerId{other}) == PeerState::ready) {
      fabric_.violation("node " + std::to_string(node) + " did not notice the end of node " +
                        std::to_string(other));
    }
  }

  bool go_through(Application::Phase phase, std::uint32_t most = UINT32_MAX) {
    if (phase == Application::Phase::traffic) begun_ = fabric_.events.now();
    fabric_.trace(0, phase == Application::Phase::traffic ? "all: traffic" : "all: closing");
    for (Node node = 0; node < engines_.size(); ++node) {
      if (!alive(node)) continue;
      std::vector<std::uint32_t> expected;
      for (const Script& script : plan_.scripts) {
        expected.push_back(std::min(script.messages[node], most));
      }
      applications_[node]->begin(phase, expected, most);
    }
    if (ranks_ != nullptr && phase == Application::Phase::traffic && most == UINT32_MAX) {
      ranks_->begin([this](Node node) { applications_[node]->wake(); });
    }
    auto behind = applications_.begin();  // one that was not finished when all were looked at
    for (;;) {
      if ((*behind)->finished()) {
        behind = std::find_if(applications_.begin(), applications_.end(),
                              [](const auto& application) { return !application->finished(); });
        if (behind == applications_.end()) return true;
      }
      if (!fabric_.violations.empty()) return false;
      if (fabric_.events.steps() % 8 == 0) {
        check_tokens();
        check_reads();
      }
      for (const Fault& fault : plan_.faults) {
        if (fault.step != 0 && fault.step == fabric_.events.steps()) strike(fault);
      }
      if (!fabric_.step() || fabric_.events.now() >= Time{} + plan_.deadline ||
          fabric_.events.steps() > plan_.most_steps) {
        fabric_.violation(phase == Application::Phase::closing ? "stuck while closing"
                                                               : "stuck while sending");
        for (const auto& application : applications_) fabric_.violation(application->describe());
        return false;
      }
    }
  }

  bool troubled() const { return !plan_.faults.empty(); }

  // All messages have arrived: nothing may have needed an RNR NAK.
  void check_quiet() {
    if (troubled() || fabric_.injected.sends_again > 0) return;  // these take receives, too
    for (const auto& engine : engines_) {
      if (engine->nic().rnr_naks() > 0 && engine->core().counters().credits_overcommitted == 0 &&
          engine->core().counters().slab_failures == 0) {
        fabric_.violation("RNR NAKs although every credit has a buffer");
      }
    }
  }

  // After the last close: what was lent is back.
  void settle() {
    for (auto& application : applications_) application->stop();
    for (auto& application : applications_) application->one_sided().check_end(troubled());
    fabric_.run_until(fabric_.events.now() + milliseconds(5));
    for (int look = 0; look < 3; ++look) {  // a dead one's waiting ticket comes last
      for (Node node = 0; node < engines_.size(); ++node) {
        engines_[node]->reap();
        engines_[node]->progress(*applications_[node]);
      }
    }
    if (!fabric_.wire->adds_up()) fabric_.violation("the wire lost or made something");
    for (Node node = 0; node < engines_.size(); ++node) {
      if (!alive(node)) continue;
      Engine& engine = *engines_[node];
      if (!engine.core().conserved()) fabric_.violation("buffers or credits do not add up");
      if (engine.core().counters().credits_out != 0 && engine.core().connecting_count() == 0) {
        fabric_.violation("credits are out although no peer is connected");
      }
      if (engine.core().has_transfers()) fabric_.violation("a transfer never ended");
      if (engine.asked() != 0) fabric_.violation("tokens of the host were not given back");
      if (engine.slots_lent() != 0) {
        fabric_.violation("node " + std::to_string(node) + ": " +
                          std::to_string(engine.slots_lent()) + " slots never came back");
      }
    }
  }

  Outcome outcome() {
    Outcome result;
    result.violations = fabric_.violations;
    result.steps = fabric_.events.steps();
    result.end = fabric_.events.now();
    result.hash = mix(fabric_.hash ^ result.steps);
    for (Node node = 0; node < engines_.size(); ++node) {
      const Counters& counters = engines_[node]->core().counters();
      result.messages += applications_[node]->received();
      result.rnr_naks += engines_[node]->nic().rnr_naks();
      result.crossings += counters.connections_crossed;
      result.failures += counters.peer_failures;
      result.overcommitted += counters.credits_overcommitted;
      result.shrinks += counters.window_shrinks;
      result.recalls += counters.credit_recalls;
      result.chains += counters.chains;
      result.requests += counters.frames_sent + counters.chunks_sent;
      result.token_waits += counters.token_waits;
      result.waits.push_back({counters.token_requests, engines_[node]->token_waits()});
      result.node_read_waits += counters.node_read_waits;
      result.proxy_served += counters.proxy_served;
      result.proxy_in_place += counters.proxy_sent_in_place;
      result.proxy_coalesced += counters.proxy_coalesced;
      result.proxy_repeated += counters.proxy_repeated;
      result.proxy_duplicates += counters.proxy_duplicates;
      result.frames_twice += counters.frames_twice;
      result.receive_bytes_peak += counters.receive_bytes_peak / engines_.size();
      result.window += static_cast<double>(counters.window) / static_cast<double>(engines_.size());
      const Time served = applications_[node]->last_message();
      result.served.push_back(served);
      if (served != Time{}) {
        result.first_served = std::min(result.first_served, served);
        result.last_served = std::max(result.last_served, served);
      }
      result.slabs_dropped += engines_[node]->slabs_dropped();
    }
    result.contexts = contexts_;
    result.begun = begun_;
    if (ranks_ != nullptr) result.latencies = ranks_->latencies();
    result.injected = fabric_.injected;
    result.wire = fabric_.wire->counts();
    result.tokens_out_most = tokens_out_most_;
    result.token_looks = token_looks_;
    result.reads_out_most = reads_out_most_;
    return result;
  }

  const Plan& plan_;
  Fabric fabric_;
  Connections connections_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<SharedAdapter>> adapters_;
  std::unique_ptr<Ranks> ranks_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::unique_ptr<Application>> applications_;
  Time begun_{};
  SharedAdapter::Counts contexts_;  // in traffic
  std::uint64_t tokens_out_most_ = 0;
  std::uint64_t token_looks_ = 0;
  std::uint64_t read_looks_ = 0;
  std::uint64_t reads_out_most_ = 0;
};

}  // namespace

Outcome run(const Plan& plan, std::function<void(const std::string&)> trace) {
  return World(plan, std::move(trace)).run();
}

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
  core.credits.control_reserve = random.between(1, 3);
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
  if (random.chance(300)) plan.hazards.lost_limit_permille = random.between(1, 1000);
  if (random.chance(200)) plan.hazards.doubled_limit_permille = random.between(1, 500);
  if (random.chance(300)) plan.hazards.lost_connection_permille = random.between(1, 150);
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
  if (random.chance(200)) plan.hazards.rnr_storm_permille = random.between(1, 300);
  if (random.chance(300)) plan.hazards.delayed_completion_permille = random.between(1, 700);
  if (random.chance(250)) {
    plan.hazards.lost_request_permille = random.between(0, 30);
    plan.hazards.lost_answer_permille = random.between(0, 30);
  }
  core.transfers.plan = {.chunk_bytes = random.between(64, 16384), .alignment_bytes = 64};
  core.transfers.reads.adaptive = random.chance(500);
  core.transfers.reads.reads = random.between(1, 12);
  core.transfers.reads.initial_bytes = core.transfers.reads.least_bytes = 4096;
  core.transfers.reads.queue_bytes = core.transfers.reads.step_bytes = 4096;
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
  plan.hazards.no_bulk_pair_permille = random.chance(200) ? random.between(1, 1000) : 0;
  if (needs_bulk_pairs) plan.hazards.no_bulk_pair_permille = 0;
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
  if (random.chance(150)) plan.hazards.send_again_permille = random.between(1, 200);
  if (trouble == Trouble::several) add_faults(seed, plan);
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
  for (const Fault& fault : plan.faults) {
    constexpr const char* kinds[] = {"killed", "host killed", "cut", "pair broken"};
    text += std::string(", ") + kinds[static_cast<int>(fault.kind)] + " node " +
            std::to_string(fault.node) +
            (fault.kind == Fault::Kind::cut ? " from " + std::to_string(fault.other) : "") +
            " at " + std::to_string(fault.when.ns / 1000) + " us";
  }
  return text;
}

}  // namespace weir::sim
