#include "tools/sim/world.h"

#include <algorithm>
#include <deque>
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
    const auto groups_of = [&](std::uint32_t each) { return (count + each - 1) / each; };
    if (plan.processes_per_host > 0) hosts_.resize(groups_of(plan.processes_per_host));
    token_movers_.resize(hosts_.size());
    read_movers_.resize(hosts_.size());
    for (std::size_t i = 0; plan.adapter.contexts > 0 && i < groups_of(plan.processes_per_adapter);
         ++i) {
      adapters_.emplace_back(plan.adapter, plan.seed + i);
    }
    for (Node node = 0; node < count; ++node) {
      Engine::Config config = plan.engine;
      config.core.self = name_of(node);
      if (plan.stands_in) config.core.wakes = plan.wakes;
      config.nic.limit_style = plan.limit_styles[node];
      config.nic.loses_fetches = plan.limit_styles[node] == SrqLimitStyle::rxe;
      config.core.fetches_apart = config.nic.loses_fetches;
      if (!adapters_.empty()) config.nic.shared = &adapters_[node / plan.processes_per_adapter];
      config.nic.srq_depth = std::max(config.core.window.max, config.core.window.most);
      if (plan.mixed_adapters) {
        const std::uint64_t drawn = mix(mix(plan.seed) + node);
        config.core.max_rd_atomic =
            1 + static_cast<std::uint32_t>(drawn % config.core.max_rd_atomic);
      }
      config.nic.max_rd_atomic = config.core.fetches_answered = config.core.max_rd_atomic;
      Host* const host = hosts_.empty() ? nullptr : &hosts_[node / plan.processes_per_host];
      engines_.push_back(std::make_unique<Engine>(fabric_, connections_, node, config, host));
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
    for (const LimitChange& change : plan.limit_changes) {
      fabric_.events.at(change.when, [this, change] {
        if (alive(change.node)) engines_[change.node]->limit(change.limits);
      });
    }
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

  // What the processes of a host have taken, and those of them that moved recently: nobody excuses
  // these.
  class Movers {
   public:
    void begin(std::size_t processes) {
      seen_.resize(processes);
      ++looks_;
      all_ = out_ = changed_ = 0;
      excused_ = false;
      taker_ = nullptr;
    }
    // A look at a process. It uses `used` and has taken `out`, and a ticket of it `waits`.
    void look(std::size_t process, Time now, const Host::Pool::Holder& holder, std::uint64_t used,
              std::uint64_t out, bool waits, const Counters& counters) {
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
      all_ += used;
      if (now - seen.moved_after < excused_after) out_ += out;
      excused_ = excused_ || counters.tokens_excused > 0;
      if (took) taker_ = &seen;
    }
    std::uint64_t all() const { return all_; }
    // They use more than `limit`. If some did not wait for one that stood still, those that move
    // have more than `most`, and one has just taken some, who asked last. (One that asked earlier
    // may have been passed as one that stood still. If several did something since the last look,
    // who was first is not known.)
    bool exceed(std::uint64_t limit, std::uint64_t most) const {
      if (!excused_) return all_ > limit;
      return out_ > most && changed_ == 1 && taker_ != nullptr &&
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
    std::uint64_t all_ = 0;
    std::uint64_t out_ = 0;
    std::uint64_t changed_ = 0;
    bool excused_ = false;
    const Seen* taker_ = nullptr;  // of those that changed, if there is one
  };

  // look(node, core, door) at each living process of a host.
  template <typename Look>
  void look_at(std::size_t host, Movers& movers, Look&& look) {
    const auto each = static_cast<Node>(plan_.processes_per_host);
    const auto first = static_cast<Node>(host) * each;
    movers.begin(each);
    for (Node node = first; node < std::min<std::size_t>(first + each, engines_.size()); ++node) {
      if (alive(node)) look(node, engines_[node]->core(), *engines_[node]->door());
    }
  }

  // The living processes of a host have taken no more tokens than exist.
  void check_tokens(std::size_t host) {
    const Admission::Config& admission = plan_.engine.core.admission;
    if (admission.policy == Admission::Policy::off) return;
    Movers& movers = token_movers_[host];
    look_at(host, movers, [&](Node node, const Core& core, const Host::Door& door) {
      const std::uint64_t out = core.counters().tokens_out;
      const Host::Pool::Holder drawn = door.requests.holder(door.requests.slot());
      if (drawn.out < out || (drawn.out > out && !core.waits_for_node())) {
        fabric_.violation(
            fmt::format("node {} has {} tokens out, its pool says {}", node, out, drawn.out));
      }
      movers.look(node % plan_.processes_per_host, fabric_.events.now(), drawn, out, out,
                  drawn.out != out, core.counters());
    });
    outcome_.tokens_out_most = std::max(outcome_.tokens_out_most, movers.all());
    if (movers.exceed(admission.tokens, admission.tokens)) {
      fabric_.violation("a host has more tokens out than there are");
    }
  }

  // The same of reads: each has a token at least, except those of chains.
  void check_reads(std::size_t host) {
    const Scheduler::Config& transfers = plan_.engine.core.transfers;
    const bool counts = !plan_.engine.own_reads && transfers.chain_bytes == 0;
    Movers& movers = read_movers_[host];
    look_at(host, movers, [&](Node node, const Core& core, const Host::Door& door) {
      const std::uint64_t out = core.counters().reads_out;
      const Host::Pool::Holder drawn = door.reads.holder(door.reads.slot());
      if (counts && out > drawn.out) {
        fabric_.violation(fmt::format("node {} has reads out without tokens", node));
      }
      const bool waits = core.waits_for_node();
      movers.look(node % plan_.processes_per_host, fabric_.events.now(), drawn, out,
                  waits ? out : drawn.out, waits, core.counters());
    });
    outcome_.reads_out_most = std::max(outcome_.reads_out_most, movers.all());
    if (!counts || transfers.reads.adaptive) return;
    const std::uint64_t limit =
        std::uint64_t{transfers.reads.reads} * NodeReads::tokens(transfers.plan.chunk_bytes);
    // A chunk that is larger than all of the budget may go alone.
    const std::uint64_t alone = NodeReads::tokens(ChunkPlan(transfers.plan).largest_bytes());
    if (movers.exceed(limit, std::max(limit, alone))) {
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
      case Fault::Kind::lose_way: break_some_qp(fault, CompletionStatus::retry_exc_err); break;
      case Fault::Kind::outage:
        ++outcome_.outages;
        fabric_.cut(fault.node, fault.other);
        fabric_.events.after(fault.lasts, [this, fault] { fabric_.mend(fault.node, fault.other); });
        break;
      case Fault::Kind::break_pair:
        if (!alive(fault.node)) break;
        break_some_qp(fault, CompletionStatus::general_err);
        for (Node node = 0; node < engines_.size(); ++node) {
          forget_later(node, fault.node);
          forget_later(fault.node, node);
        }
        break;
    }
  }

  void break_some_qp(const Fault& fault, CompletionStatus status) {
    Nic& nic = engines_[fault.node]->nic();
    outcome_.broken_pairs += nic.break_some_qp(fault.pick, status) ? 1 : 0;
  }

  // By now whoever had a connection there knows of the end, even if it had nothing to send.
  void check_noticed(Node node, Node other) {
    if (node == other || !alive(node)) return;
    if (engines_[node]->core().state(PeerId{other}) == PeerState::ready) {
      fabric_.violation(fmt::format("node {} did not notice the end of node {}", node, other));
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
        for (std::size_t host = 0; host < hosts_.size(); ++host) check_tokens(host);
        if (!hosts_.empty()) check_reads(read_looks_++ % hosts_.size());
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

  // A process that had closed may have accepted once more, and not know of that connection's end.
  static bool is_anybody_connected(const Core& core) {
    bool any = core.connecting_count() > 0;
    for (std::uint32_t peer = 0; peer < core.peer_count(); ++peer) {
      any = any || core.is_connected(PeerId{peer});
    }
    return any;
  }

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
    const Timing& timing = plan_.timing;
    fabric_.run_until(fabric_.events.now() + milliseconds(5) + timing.connection_message +
                      timing.connection_jitter);
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
      if (engine.core().counters().credits_out != 0 && !is_anybody_connected(engine.core())) {
        fabric_.violation("credits are out although no peer is connected");
      }
      const Host::Door* const door = engine.door();
      if (door != nullptr && door->requests.asked() + door->reads.asked() != 0) {
        fabric_.violation("tokens of the host were not given back");
      }
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
  std::deque<Host> hosts_;
  std::vector<SharedAdapter> adapters_;
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
