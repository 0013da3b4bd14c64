// Plays random small worlds and looks for broken promises. Prints the seed and the line that plays
// it again.
//
//   weir_explore [--seed N] [--seeds K] [--first N] [--verbose] [--trace] [--failed FILE]
//
// WEIR_SEEDS sets K. Seeds in FILE, which failed once, run first.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tools/sim/world.h"

namespace {

struct Totals {
  std::uint64_t worlds = 0;
  std::uint64_t failed = 0;
  std::uint64_t messages = 0;
  std::uint64_t steps = 0;
  std::uint64_t crossings = 0;
  std::uint64_t failures = 0;
  std::uint64_t rnr_naks = 0;
  std::uint64_t shrinks = 0;
  std::uint64_t recalls = 0;
  std::uint64_t chains = 0;
  std::uint64_t slabs_dropped = 0;
  std::uint64_t token_waits = 0;
  std::uint64_t node_read_waits = 0;
  std::uint64_t proxy_served = 0;
  std::uint64_t proxy_in_place = 0;
  std::uint64_t proxy_coalesced = 0;
  std::uint64_t proxy_repeated = 0;
  std::uint64_t proxy_duplicates = 0;
};

void play(std::uint64_t seed, bool verbose, bool trace, const char* program, Totals& totals) {
  const weir::sim::Plan plan = weir::sim::random_plan(seed);
  if (verbose)
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), describe(plan).c_str());
  std::function<void(const std::string&)> sink;
  if (trace) sink = [](const std::string& line) { std::printf("  %s\n", line.c_str()); };
  const weir::sim::Outcome outcome = weir::sim::run(plan, sink);
  ++totals.worlds;
  totals.messages += outcome.messages;
  totals.steps += outcome.steps;
  totals.crossings += outcome.crossings;
  totals.failures += outcome.failures;
  totals.rnr_naks += outcome.rnr_naks;
  totals.shrinks += outcome.shrinks;
  totals.recalls += outcome.recalls;
  totals.chains += outcome.chains;
  totals.slabs_dropped += outcome.slabs_dropped;
  totals.token_waits += outcome.token_waits;
  totals.node_read_waits += outcome.node_read_waits;
  totals.proxy_served += outcome.proxy_served;
  totals.proxy_in_place += outcome.proxy_in_place;
  totals.proxy_coalesced += outcome.proxy_coalesced;
  totals.proxy_repeated += outcome.proxy_repeated;
  totals.proxy_duplicates += outcome.proxy_duplicates;
  if (verbose) {
    std::printf("  %llu messages, %llu events, %.3f ms, %llu RNR NAKs, %llu overcommitted\n",
                static_cast<unsigned long long>(outcome.messages),
                static_cast<unsigned long long>(outcome.steps),
                static_cast<double>(outcome.end.ns) / 1e6,
                static_cast<unsigned long long>(outcome.rnr_naks),
                static_cast<unsigned long long>(outcome.overcommitted));
  }
  if (outcome.ok()) return;
  ++totals.failed;
  std::printf("FAILED seed %llu (%s)\n", static_cast<unsigned long long>(seed),
              describe(plan).c_str());
  for (const std::string& text : outcome.violations) std::printf("  %s\n", text.c_str());
  std::printf("  again: %s --seed %llu --verbose\n", program,
              static_cast<unsigned long long>(seed));
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t count = 300;
  std::uint64_t first = 1;
  bool verbose = false;
  bool trace = false;
  std::vector<std::uint64_t> seeds;
  bool only = false;
  if (const char* text = std::getenv("WEIR_SEEDS")) count = std::strtoull(text, nullptr, 10);
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (option == "--verbose") {
      verbose = true;
    } else if (option == "--trace") {
      trace = true;
    } else if (option == "--seed" && value != nullptr) {
      seeds.push_back(std::strtoull(argv[++i], nullptr, 10));
      only = true;
    } else if (option == "--seeds" && value != nullptr) {
      count = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--first" && value != nullptr) {
      first = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--failed" && value != nullptr) {
      std::ifstream file(argv[++i]);
      for (std::string line; std::getline(file, line);) {
        if (!line.empty() && line[0] != '#')
          seeds.push_back(std::strtoull(line.c_str(), nullptr, 10));
      }
    } else {
      std::fprintf(
          stderr,
          "usage: %s [--seed N] [--seeds K] [--first N] [--verbose] [--trace] [--failed FILE]\n",
          argv[0]);
      return 2;
    }
  }
  Totals totals;
  for (const std::uint64_t seed : seeds) play(seed, verbose, trace, argv[0], totals);
  for (std::uint64_t i = 0; !only && i < count && totals.failed < 20; ++i) {
    play(first + i, verbose, trace, argv[0], totals);
  }
  std::printf(
      "%llu worlds, %llu failed; %llu messages, %llu events, %llu crossings, "
      "%llu peer failures, %llu RNR NAKs, %llu shrinks, %llu recalls, %llu slabs dropped, "
      "%llu chains, %llu waits for tokens, %llu for the host's reads, %llu frames served, "
      "%llu sent in place, %llu coalesced, %llu repeated, %llu dropped as duplicates\n",
      static_cast<unsigned long long>(totals.worlds),
      static_cast<unsigned long long>(totals.failed),
      static_cast<unsigned long long>(totals.messages),
      static_cast<unsigned long long>(totals.steps),
      static_cast<unsigned long long>(totals.crossings),
      static_cast<unsigned long long>(totals.failures),
      static_cast<unsigned long long>(totals.rnr_naks),
      static_cast<unsigned long long>(totals.shrinks),
      static_cast<unsigned long long>(totals.recalls),
      static_cast<unsigned long long>(totals.slabs_dropped),
      static_cast<unsigned long long>(totals.chains),
      static_cast<unsigned long long>(totals.token_waits),
      static_cast<unsigned long long>(totals.node_read_waits),
      static_cast<unsigned long long>(totals.proxy_served),
      static_cast<unsigned long long>(totals.proxy_in_place),
      static_cast<unsigned long long>(totals.proxy_coalesced),
      static_cast<unsigned long long>(totals.proxy_repeated),
      static_cast<unsigned long long>(totals.proxy_duplicates));
  return totals.failed == 0 ? 0 : 1;
}
