// What a world of several rails is like, drawn from its seed.
#include <algorithm>

#include "tests/contract/rail_world.h"
#include "tests/contract/random_world.h"

namespace weir::sim {
namespace {

constexpr Duration patience = seconds(5);  // with a peer, and with a connection
// On the rail that stays, so that two in a row leave time to make its connections again.
constexpr Duration longest_on_safe = milliseconds(1200);

class Faults {
 public:
  Faults(Random& random, RailPlan& plan)
      : random_(random), plan_(plan), processes_(static_cast<Node>(plan.base.scripts.size())) {}

  // They begin once everybody has met.
  Time begin() {
    return Time{} + microseconds(random_.between(0, random_.chance(500) ? 5000 : 3'000'000));
  }

  RailFault on(std::size_t rail, RailFault::Kind kind, Time when) {
    RailFault fault{.kind = kind, .when = when, .rail = rail};
    fault.process = static_cast<Node>(random_.below(processes_));
    fault.other =
        static_cast<Node>((fault.process + 1 + random_.below(processes_ - 1)) % processes_);
    fault.pick = random_.between(0, UINT16_MAX);
    fault.all = random_.chance(500);
    fault.told = fault.all && random_.chance(300);
    return fault;
  }
  void add(const RailFault& fault) { plan_.faults.push_back(fault); }

  void spells(std::size_t rail, std::uint32_t count, Duration longest) {
    Time when = begin();
    for (; count > 0; --count) {
      RailFault fault = on(rail, RailFault::Kind::black, when);
      fault.lasts = random_.up_to(random_.chance(300) ? longest : longest / 8);
      fault.lasts.ns += 1;
      add(fault);
      when = when + fault.lasts +
             microseconds(random_.between(0, random_.chance(500) ? 500 : 900'000));
    }
  }
  void breaks(std::size_t rail, std::uint32_t count) {
    Time when = begin();
    for (; count > 0; --count) {
      add(on(rail, RailFault::Kind::break_pair, when));
      when = when + microseconds(random_.between(0, random_.chance(500) ? 300 : 500'000));
    }
  }

 private:
  Random& random_;
  RailPlan& plan_;
  Node processes_;
};

void add_faults(Random& random, RailPlan& plan) {
  Faults faults(random, plan);
  const std::size_t safe = random.below(plan.rails);
  // Without a place for a connection, only the first rail makes it anew.
  const bool parts = plan.base.engine.core.connections_max > 0;
  for (std::size_t rail = 0; rail < plan.rails; ++rail) {
    const bool stays = rail == safe || (parts && rail == 0);
    if (random.chance(500)) faults.breaks(rail, random.between(1, 3));
    if (stays) {
      if (random.chance(500)) faults.spells(rail, random.between(1, 2), longest_on_safe);
      continue;
    }
    if (random.chance(700)) faults.spells(rail, random.between(1, 3), seconds(9));
    if (random.chance(300)) faults.add(faults.on(rail, RailFault::Kind::gone, faults.begin()));
  }
  std::sort(plan.faults.begin(), plan.faults.end(),
            [](const RailFault& a, const RailFault& b) { return a.when < b.when; });
  const bool breaks_first = std::any_of(plan.faults.begin(), plan.faults.end(),
                                        [](const RailFault& fault) { return fault.rail == 0; });
  plan.atomics = !breaks_first && random.chance(500);
}

}  // namespace

RailPlan rail_plan(std::uint64_t seed) {
  RailPlan plan;
  plan.base = random_plan(seed, Trouble::one_at_most);
  Random random(mix(mix(seed) + 5));
  Plan& base = plan.base;
  base.faults.clear();
  base.rounds = 1;
  if (base.scripts.size() > 4) {
    base.scripts.resize(4);
    base.limit_styles.resize(4);
  }
  plan.rails = random.between(1, 3);
  Core::Config& core = base.engine.core;
  core.resumes = true;
  core.proxy = false;
  core.admission = {};
  core.connect_timeout = core.peer_timeout = patience;
  core.transfers.plan.chunk_bytes = random.between(4096, 65536);
  core.transfers.chain_bytes = random.chance(500) ? random.between(4096, 200'000) : 0;
  if (!random.chance(150)) core.connections_max = 0;
  base.engine.proxy_servers = 0;
  base.processes_per_host = 0;
  base.hazards.missed_bulk_pair.permille = 0;
  base.hazards.lost_connection_message.permille /= 2;
  base.timing.retries = milliseconds(random.between(20, 500));
  for (Script& script : base.scripts) {
    script.compute_permille = random.chance(600) ? 0 : random.between(1, 20);
    script.compute = milliseconds(random.between(1, random.chance(200) ? 8000 : 200));
  }
  plan.spread = plan.rails > 1 && random.chance(300);
  plan.fenced = static_cast<std::uint8_t>(random.below(8)) & 6;
  plan.operations = plan.spread ? 0 : random.between(0, 12);
  if (random.chance(700)) plan.pace = milliseconds(random.between(1, 100));
  plan.at_a_time = random.between(1, 6);
  plan.largest = random.between(1000, random.chance(500) ? 900'000 : 100'000);
  add_faults(random, plan);
  Random of_trains(mix(mix(seed) + 6));
  if (of_trains.chance(600)) plan.trains_permille = of_trains.between(10, 700);
  if (of_trains.chance(400)) plan.halts_permille = of_trains.between(1, 100);
  return plan;
}

std::string describe(const RailPlan& plan) {
  std::string text = std::to_string(plan.base.scripts.size()) + " processes, " +
                     std::to_string(plan.rails) + " rails" + (plan.spread ? ", spread" : "") +
                     (plan.base.engine.core.connections_max > 0 ? ", few places" : "");
  for (const RailFault& fault : plan.faults) {
    constexpr const char* kinds[] = {"pair broken", "black", "gone"};
    text += std::string(", rail ") + std::to_string(fault.rail) + " " +
            kinds[static_cast<int>(fault.kind)] +
            (fault.all ? " for all" : " at " + std::to_string(fault.process)) +
            (fault.told ? " (told)" : "") + " at " + std::to_string(fault.when.ns / 1000) + " us" +
            (fault.lasts.ns > 0 ? " for " + std::to_string(fault.lasts.ns / 1000) + " us" : "");
  }
  return text;
}

}  // namespace weir::sim
