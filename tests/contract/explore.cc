// Plays random small worlds and looks for broken promises. Prints the seed and the line that plays
// it again. Fails, too, if what the worlds are there for did not happen in enough of them.
//
//   weir_explore [--seed N] [--seeds K] [--first N] [--verbose] [--trace] [--failed FILE]
//                [--one-fault | --outages | --absences | --rails]
//
// WEIR_SEEDS sets K, WEIR_FIRST_SEED the first N. Seeds in FILE, which failed once, run first.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/contract/rail_world.h"
#include "tests/contract/random_world.h"

namespace {

using weir::sim::Outcome;
using weir::sim::Trouble;

// Something that is to happen: in `least` of 10,000 worlds, about half of what was seen when that
// was set; with --outages, in `least_outages`, and so on.
struct Event {
  const char* name;
  std::uint64_t least;
  std::uint64_t (*count)(const Outcome&);
  std::uint64_t least_outages = 0;
  std::uint64_t least_absences = 0;
  std::uint64_t least_rails = 0;

  std::uint64_t least_with(Trouble trouble) const {
    switch (trouble) {
      case Trouble::outages: return least_outages;
      case Trouble::absences: return least_absences;
      case Trouble::rails: return least_rails;
      default: return least;
    }
  }
};

constexpr std::array events = {
    Event{"processes killed", 1900, [](const Outcome& o) { return o.kills; }},
    Event{"ways cut", 1100, [](const Outcome& o) { return o.cuts; }, 0, 0, 1400},
    Event{"queue pairs broken", 540, [](const Outcome& o) { return o.broken_pairs; }, 2800, 0, 3200},
    Event{"outages", 0, [](const Outcome& o) { return o.outages; }, 2300, 0, 3800},
    Event{"connections resumed", 0, [](const Outcome& o) { return o.total.connections_resumed; },
          2900, 0, 3400},
    Event{"frames resent", 0, [](const Outcome& o) { return o.total.frames_resent; }, 1700, 0, 1100},
    Event{"chunks issued again", 0, [](const Outcome& o) { return o.total.chunks_again; }, 900, 0, 800},
    Event{"second faults and more", 1200,
          [](const Outcome& o) {
            const std::uint64_t all = o.kills + o.cuts + o.broken_pairs;
            return all > 1 ? all - 1 : 0;
          }},
    Event{"peer failures", 2300, [](const Outcome& o) { return o.total.peer_failures; }},
    Event{"limit events lost", 410, [](const Outcome& o) { return o.hazards.lost_limit.struck; }},
    Event{"limit events doubled", 150,
          [](const Outcome& o) { return o.hazards.doubled_limit.struck; }},
    Event{"RNR NAKs", 32, [](const Outcome& o) { return o.rnr_naks; }},
    Event{"RNR NAKs of storms", 860, [](const Outcome& o) { return o.hazards.rnr_storm.struck; }},
    Event{"completions delayed", 1300,
          [](const Outcome& o) { return o.hazards.delayed_completion.struck; }},
    Event{"requests lost", 940, [](const Outcome& o) { return o.hazards.lost_request.struck; }},
    Event{"answers lost", 940, [](const Outcome& o) { return o.hazards.lost_answer.struck; }},
    Event{"connection messages lost", 1000,
          [](const Outcome& o) { return o.hazards.lost_connection_message.struck; }},
    Event{"bulk pairs not to be had", 16,
          [](const Outcome& o) { return o.hazards.missed_bulk_pair.struck; }},
    Event{"connections crossed", 4400,
          [](const Outcome& o) { return o.total.connections_crossed; }},
    Event{"connections parted", 100, [](const Outcome& o) { return o.total.connections_parted; }},
    Event{"peers that wanted to stay", 100,
          [](const Outcome& o) { return o.total.connections_kept; }},
    Event{"connections over the limit", 100,
          [](const Outcome& o) { return o.total.connections_over; }},
    Event{"credits overcommitted", 200,
          [](const Outcome& o) { return o.total.credits_overcommitted; }},
    Event{"windows shrunk", 2600, [](const Outcome& o) { return o.total.window_shrinks; }},
    Event{"credits recalled", 1200, [](const Outcome& o) { return o.total.credit_recalls; }},
    Event{"slabs dropped", 1000, [](const Outcome& o) { return o.slabs_dropped; }},
    Event{"chains", 430, [](const Outcome& o) { return o.total.chains; }},
    Event{"waits for tokens", 530, [](const Outcome& o) { return o.total.token_waits; }},
    Event{"waits for the host's reads", 680,
          [](const Outcome& o) { return o.total.node_read_waits; }},
    Event{"frames served", 430, [](const Outcome& o) { return o.total.proxy_served; }},
    Event{"frames sent in place", 210,
          [](const Outcome& o) { return o.total.proxy_sent_in_place; }},
    Event{"frames coalesced", 200, [](const Outcome& o) { return o.total.proxy_coalesced; }},
    Event{"frames repeated", 420, [](const Outcome& o) { return o.total.proxy_repeated; }},
    Event{"duplicates dropped", 57, [](const Outcome& o) { return o.total.proxy_duplicates; }},
    Event{"stand-ins woken", 0, [](const Outcome& o) { return o.stood_in.wakeups; }, 0, 4900},
    Event{"things handed up by them", 0, [](const Outcome& o) { return o.stood_in.upcalls; }, 0,
          4900},
    Event{"solicited events lost", 0, [](const Outcome& o) { return o.hazards.lost_event.struck; },
          0, 800},
    Event{"solicited events late", 0, [](const Outcome& o) { return o.hazards.late_event.struck; },
          0, 1000},
    Event{"frames delivered twice", 650, [](const Outcome& o) { return o.total.frames_twice; }},
    Event{"frames given to another rail", 0, [](const Outcome& o) { return o.rails.frames_carried; },
          0, 0, 1000},
    Event{"parts over further rails", 0, [](const Outcome& o) { return o.rails.parts; }, 0, 0, 750},
    Event{"parts done again", 0, [](const Outcome& o) { return o.rails.parts_again; }, 0, 0, 550},
    Event{"trains sent", 0, [](const Outcome& o) { return o.total.trains_sent; }, 0, 0, 2900},
    Event{"trains that waited", 0, [](const Outcome& o) { return o.total.trains_waited; }, 0, 0, 2000},
    Event{"trains refused", 0, [](const Outcome& o) { return o.total.trains_refused; }, 0, 0, 3000},
    Event{"peers given up on a rail", 0, [](const Outcome& o) { return o.rails.given_up; }, 0, 0,
          850},
};

struct Totals {
  std::uint64_t worlds = 0;
  std::uint64_t failed = 0;
  std::uint64_t messages = 0;
  std::uint64_t steps = 0;
  std::uint64_t hash = 0;
  std::array<std::uint64_t, events.size()> count{};
  std::array<std::uint64_t, events.size()> in{};  // so many worlds
};

struct Seed {
  std::uint64_t number;
  Trouble trouble;
};

// By Trouble, and as options.
constexpr std::array troubles = {"one-fault", "several", "outages", "absences", "rails"};

template <typename Plan>
void play(const Plan& plan, const Seed& seed, bool verbose, bool trace, const char* program,
          Totals& totals) {
  const auto number = static_cast<unsigned long long>(seed.number);
  if (verbose) std::printf("seed %llu: %s\n", number, describe(plan).c_str());
  std::function<void(const std::string&)> sink;
  if (trace) sink = [](const std::string& line) { std::printf("  %s\n", line.c_str()); };
  const Outcome outcome = weir::sim::run(plan, sink);
  ++totals.worlds;
  totals.messages += outcome.messages;
  totals.steps += outcome.steps;
  totals.hash = weir::sim::mix(totals.hash ^ outcome.hash);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::uint64_t count = events[i].count(outcome);
    totals.count[i] += count;
    totals.in[i] += count > 0 ? 1 : 0;
  }
  if (verbose) {
    std::printf(
        "  %llu messages, %llu events, %.3f ms, %llu RNR NAKs, %llu overcommitted, hash %016llx\n",
        static_cast<unsigned long long>(outcome.messages),
        static_cast<unsigned long long>(outcome.steps), static_cast<double>(outcome.end.ns) / 1e6,
        static_cast<unsigned long long>(outcome.rnr_naks),
        static_cast<unsigned long long>(outcome.total.credits_overcommitted),
        static_cast<unsigned long long>(outcome.hash));
  }
  if (outcome.ok()) return;
  ++totals.failed;
  std::printf("FAILED seed %llu (%s)\n", number, describe(plan).c_str());
  for (const std::string& text : outcome.violations) std::printf("  %s\n", text.c_str());
  std::printf("  again: %s --seed %llu --%s --verbose\n", program, number,
              troubles[static_cast<std::size_t>(seed.trouble)]);
}

void play(const Seed& seed, bool verbose, bool trace, const char* program, Totals& totals) {
  if (seed.trouble == Trouble::rails) {
    return play(weir::sim::rail_plan(seed.number), seed, verbose, trace, program, totals);
  }
  play(weir::sim::random_plan(seed.number, seed.trouble), seed, verbose, trace, program, totals);
}

std::optional<Trouble> trouble_of(const std::string& word) {
  const auto found = std::find(troubles.begin(), troubles.end(), word);
  if (found == troubles.end()) return std::nullopt;
  return static_cast<Trouble>(found - troubles.begin());
}

// A line is a seed, perhaps with a word for its trouble, or a remark. False: there is none to be
// read.
bool read_seeds(const char* name, std::vector<Seed>& seeds) {
  std::ifstream file(name);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Seed seed{0, Trouble::several};
    std::string word;
    words >> seed.number;
    if (words >> word) seed.trouble = trouble_of(word).value_or(Trouble::several);
    seeds.push_back(seed);
  }
  return !seeds.empty();
}

// What happened, and whether it did in enough worlds.
bool report(const Totals& totals, Trouble trouble) {
  bool enough = true;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    const std::uint64_t least = event.least_with(trouble) * totals.worlds / 10'000;
    const bool few = totals.in[i] < least;
    std::printf("%s%10llu %-26s in %6llu worlds, at least %llu\n", few ? "TOO FEW " : "        ",
                static_cast<unsigned long long>(totals.count[i]), events[i].name,
                static_cast<unsigned long long>(totals.in[i]),
                static_cast<unsigned long long>(least));
    enough = enough && !few;
  }
  if (!enough) std::printf("FAILED: the worlds do not try what they are there for\n");
  return enough;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t count = 300;
  std::uint64_t first = 1;
  bool verbose = false;
  bool trace = false;
  Trouble trouble = Trouble::several;
  std::vector<Seed> seeds;
  std::vector<std::uint64_t> only;
  if (const char* text = std::getenv("WEIR_SEEDS")) count = std::strtoull(text, nullptr, 10);
  if (const char* text = std::getenv("WEIR_FIRST_SEED")) first = std::strtoull(text, nullptr, 10);
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (option == "--verbose") {
      verbose = true;
    } else if (option == "--trace") {
      trace = true;
    } else if (option.starts_with("--") && trouble_of(option.substr(2))) {
      trouble = *trouble_of(option.substr(2));
    } else if (option == "--seed" && value != nullptr) {
      only.push_back(std::strtoull(argv[++i], nullptr, 10));
    } else if (option == "--seeds" && value != nullptr) {
      count = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--first" && value != nullptr) {
      first = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--failed" && value != nullptr) {
      if (!read_seeds(argv[++i], seeds)) {
        std::fprintf(stderr, "%s: no seeds\n", argv[i]);
        return 2;
      }
    } else {
      std::fprintf(stderr,
                   "usage: %s [--seed N] [--seeds K] [--first N] [--verbose] [--trace] "
                   "[--failed FILE] [--one-fault | --outages | --absences | --rails]\n",
                   argv[0]);
      return 2;
    }
  }
  for (const std::uint64_t number : only) seeds.push_back({number, trouble});
  Totals again;  // not random, so nothing is expected of them but that they hold
  for (const Seed& seed : seeds) play(seed, verbose, trace, argv[0], again);
  Totals totals;
  for (std::uint64_t i = 0; only.empty() && i < count && again.failed + totals.failed < 20; ++i) {
    play({first + i, trouble}, verbose, trace, argv[0], totals);
  }
  std::printf("%llu worlds, %llu failed; %llu messages, %llu events, hash %016llx\n",
              static_cast<unsigned long long>(again.worlds + totals.worlds),
              static_cast<unsigned long long>(again.failed + totals.failed),
              static_cast<unsigned long long>(again.messages + totals.messages),
              static_cast<unsigned long long>(again.steps + totals.steps),
              static_cast<unsigned long long>(weir::sim::mix(again.hash ^ totals.hash)));
  const bool enough =
      totals.worlds == 0 || trouble == Trouble::one_at_most || report(totals, trouble);
  return again.failed + totals.failed == 0 && enough ? 0 : 1;
}
