#include "tools/sim/world.h"

#include <algorithm>
#include <memory>
#include <ranges>

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
      if (plan.stands_in) config.core.wakes = plan.wakes;
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
      if (plan.stands_in) engines_.back()->let_stand_in(*applications_.back());
    }
    for (Node node = 0; node < count; ++node) {
      engines_[node]->expect_peers(count);
      for (Node other = 0; other < count; ++other) {
        applications_[node]->add_peer(other, engines_[node]->add_peer(name_of(other), other));
        applications_[node]->scripts.push_back(&plan_.scripts[other]);
      }
    }
    std::vector<OneSided*> all;
    for (auto& application : applications_) all.push_back(&application->one_sided());
    for (OneSided* one : all) one->meet(all);
    for (const Fault& fault : plan.faults) arrange(fault);
  }

  Outcome run() {
    if (plan_.connect_first && !go_through(Application::Phase::traffic, 1)) return outcome();
    for (std::uint32_t round = 0; round < plan_.rounds; ++round) {
      if (!go_through(Application::Phase::traffic)) return outcome();
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

  auto nodes_of(std::size_t host) const {
    const auto each = static_cast<Node>(plan_.processes_per_host);
    const auto first = static_cast<Node>(host) * each;
    return std::views::iota(first, std::min(first + each, static_cast<Node>(engines_.size())));
  }
  SharedAdapter* adapter_of(Node node) {
    if (plan_.adapter.contexts == 0) return nullptr;
    const std::size_t place = node / plan_.processes_per_adapter;
    while (adapters_.size() <= place) {
      adapters_.push_back(std::make_unique<SharedAdapter>(plan_.adapter, plan_.seed + place));
    }
    return adapters_[place].get();
  }

  // What the processes of a host that moved recently have taken. Nobody excuses these.
  class Movers {
   public:
    void begin(std::size_t processes) {
      seen_.resize(processes);
      ++looks_;
      out_ = 0;
      changed_ = 0;
      taker_ = nullptr;
    }
    // A look at a process. It has taken `out`, and a ticket of it `waits`.
    void look(std::size_t process, Time now, const Host::Pool::Holder& holder, std::uint64_t out,
              bool waits) {
      Seen& seen = seen_[process];
      const bool drew = holder.drawn != seen.drawn;
      const bool moved = drew || holder.returned != seen.returned;
      const bool took = (drew || seen.waits) && !waits;
      if (moved || out != seen.out || waits != seen.waits) ++changed_;
      seen = {.drawn = holder.drawn,
              .returned = holder.returned,
              .out = out,
              .waits = waits,
              .drew_in_look = drew ? looks_ : seen.drew_in_look,
              .moved_after = moved ? seen.looked : seen.moved_after,
              .looked = now};
      if (now - seen.moved_after < excused_after) out_ += out;
      if (took) taker_ = &seen;
    }
    // They have more than `limit`, and one has just taken some, who asked last. (One that asked
    // earlier may have been passed as one that stood still. If several did something since the last
    // look, who was first is not known.)
    bool exceed(std::uint64_t limit) const {
      return out_ > limit && changed_ == 1 && taker_ != nullptr &&
             std::ranges::all_of(seen_, [this](const Seen& other) {
               return &other == taker_ || other.drew_in_look < taker_->drew_in_look;
             });
    }

   private:
    static constexpr Duration excused_after = milliseconds(20);

    struct Seen {
      std::uint64_t drawn = 0;
      std::uint64_t returned = 0;
      std::uint64_t out = 0;
      bool waits = false;
      std::uint64_t drew_in_look = 0;
      Time moved_after{};
      Time looked{};
    };
    std::vector<Seen> seen_;
    std::uint64_t looks_ = 0;
    std::uint64_t out_ = 0;
    std::uint32_t changed_ = 0;
    const Seen* taker_ = nullptr;  // of those that changed, if there is one
  };

  // The living processes of a host have taken no more tokens than exist. If some did not
  // wait for one that stood still, this holds for those that move.
  void check_tokens() {
    if (hosts_.empty() || plan_.engine.core.admission.policy == Admission::Policy::off) return;
    const std::uint64_t limit = plan_.engine.core.admission.tokens;
    token_movers_.resize(hosts_.size());
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      std::uint64_t out = 0;
      bool excused = false;
      token_movers_[host].begin(plan_.processes_per_host);
      for (Node node : nodes_of(host)) {
        if (!alive(node)) continue;
        const Counters& counters = engines_[node]->core().counters();
        const Host::Pool::Holder drawn = engines_[node]->tokens_drawn();
        if (drawn.out < counters.tokens_out ||
            (drawn.out > counters.tokens_out && !engines_[node]->core().waits_for_node())) {
          fabric_.violation("node " + std::to_string(node) + " has " +
                            std::to_string(counters.tokens_out) + " tokens out, its pool says " +
                            std::to_string(drawn.out));
        }
        out += counters.tokens_out;
        excused = excused || counters.tokens_excused > 0;
        token_movers_[host].look(node % plan_.processes_per_host, fabric_.events.now(), drawn,
                                 counters.tokens_out, drawn.out != counters.tokens_out);
      }
      outcome_.tokens_out_most = std::max(outcome_.tokens_out_most, out);
      if (excused ? token_movers_[host].exceed(limit) : out > limit) {
        fabric_.violation("a host has more tokens out than there are");
      }
    }
  }

  // The same of reads, a host at a look: each has a token at least, except those of chains.
  void check_reads() {
    if (hosts_.empty()) return;
    const Core::Config& core = plan_.engine.core;
    const std::size_t host = read_looks_++ % hosts_.size();
    const bool counts = !plan_.engine.own_reads && core.transfers.chain_bytes == 0;
    std::uint64_t out = 0;
    bool excused = false;
    read_movers_.resize(hosts_.size());
    read_movers_[host].begin(plan_.processes_per_host);
    for (Node node : nodes_of(host)) {
      if (!alive(node)) continue;
      const Counters& counters = engines_[node]->core().counters();
      const Host::Pool::Holder drawn = engines_[node]->read_tokens_drawn();
      out += counters.reads_out;
      if (counts && counters.reads_out > drawn.out) {
        fabric_.violation("node " + std::to_string(node) + " has reads out without tokens");
      }
      excused = excused || counters.tokens_excused > 0;
      const bool waits = engines_[node]->core().waits_for_node();
      read_movers_[host].look(node % plan_.processes_per_host, fabric_.events.now(), drawn,
                              waits ? counters.reads_out : drawn.out, waits);
    }
    outcome_.reads_out_most = std::max(outcome_.reads_out_most, out);
    const BudgetController::Config& reads = core.transfers.reads;
    if (!counts || reads.adaptive) return;
    const std::uint64_t limit =
        std::uint64_t{reads.reads} * NodeReads::tokens(core.transfers.plan.chunk_bytes);
    // A chunk that is larger than all of the budget may go alone.
    const std::uint64_t alone = NodeReads::tokens(ChunkPlan(core.transfers.plan).largest_bytes());
    if (excused ? read_movers_[host].exceed(std::max(limit, alone)) : out > limit) {
      fabric_.violation("a host has more reads out than its budget");
    }
  }

  bool alive(Node node) const { return !engines_[node]->dead(); }

  void arrange(const Fault& fault) {
    // Who may hear of it, from the start: trouble can show at any time after it.
    const auto count = static_cast<Node>(engines_.size());
    const bool passes = fault.kind == Fault::Kind::lose_way || fault.kind == Fault::Kind::outage;
    for (Node node = 0; node < count && !passes; ++node) {
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
        outcome_.kills += alive(fault.node) ? 1 : 0;
        applications_[fault.node]->stop();
        engines_[fault.node]->kill(fault.kind == Fault::Kind::kill_told);
        for (Node node = 0; node < engines_.size(); ++node) forget_later(node, fault.node);
        break;
      case Fault::Kind::cut:
        ++outcome_.cuts;
        fabric_.cut(fault.node, fault.other);
        forget_later(fault.node, fault.other);
        forget_later(fault.other, fault.node);
        break;
      case Fault::Kind::lose_way:
        if (engines_[fault.node]->nic().break_some_qp(fault.pick,
                                                      CompletionStatus::retry_exc_err)) {
          ++outcome_.broken_pairs;
        }
        break;
      case Fault::Kind::outage:
        ++outcome_.outages;
        fabric_.cut(fault.node, fault.other);
        fabric_.events.after(fault.lasts, [this, fault] { fabric_.mend(fault.node, fault.other); });
        break;
      case Fault::Kind::break_pair:
        if (!alive(fault.node)) break;
        if (engines_[fault.node]->nic().break_some_qp(fault.pick, CompletionStatus::general_err)) {
          ++outcome_.broken_pairs;
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
    if (phase == Application::Phase::traffic) outcome_.begun = fabric_.events.now();
    fabric_.trace(0, phase == Application::Phase::traffic ? "all: traffic" : "all: closing");
    for (Node node = 0; node < engines_.size(); ++node) {
      if (!alive(node)) continue;
      std::vector<std::uint32_t> expected;
      for (const Script& script : plan_.scripts) {
        expected.push_back(std::min(script.messages[node], most));
      }
      applications_[node]->begin(phase, expected, most);
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
        if (plan_.stands_in) {
          for (const auto& engine : engines_) engine->check_nobody_waits();
        }
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
    if (troubled() || fabric_.hazards.send_again.struck > 0) return;  // these take receives, too
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
      engine.check_at_rest();
      if (engine.core().counters().credits_out != 0 && engine.core().connecting_count() == 0) {
        fabric_.violation("credits are out although no peer is connected");
      }
      if (engine.asked() != 0) fabric_.violation("tokens of the host were not given back");
    }
  }

  Outcome outcome() {
    outcome_.violations = fabric_.violations;
    outcome_.steps = fabric_.events.steps();
    outcome_.end = fabric_.events.now();
    outcome_.hash = mix(fabric_.hash ^ outcome_.steps);
    for (Node node = 0; node < engines_.size(); ++node) {
      const Counters& counters = engines_[node]->core().counters();
      outcome_.messages += applications_[node]->received();
      outcome_.rnr_naks += engines_[node]->nic().rnr_naks();
      for (const auto& counter : counter_table) {
        outcome_.total.*counter.field += counters.*counter.field;
      }
      outcome_.receive_bytes_peak += counters.receive_bytes_peak / engines_.size();
      outcome_.window +=
          static_cast<double>(counters.window) / static_cast<double>(engines_.size());
      const Time served = applications_[node]->last_message();
      outcome_.served.push_back(served);
      outcome_.last_served = std::max(outcome_.last_served, served);
      outcome_.slabs_dropped += engines_[node]->slabs_dropped();
      outcome_.stood_in.wakeups += engines_[node]->stood_in().wakeups;
      outcome_.stood_in.upcalls += engines_[node]->stood_in().upcalls;
    }
    outcome_.hazards = fabric_.hazards;
    outcome_.wire = fabric_.wire->counts();
    return outcome_;
  }

  const Plan& plan_;
  Fabric fabric_;
  Connections connections_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<SharedAdapter>> adapters_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::unique_ptr<Application>> applications_;
  Outcome outcome_;
  std::vector<Movers> token_movers_;  // by host
  std::vector<Movers> read_movers_;
  std::uint64_t read_looks_ = 0;
};

}  // namespace

Outcome run(const Plan& plan, std::function<void(const std::string&)> trace) {
  return World(plan, std::move(trace)).run();
}

}  // namespace weir::sim
