// What a larger job costs a rank that does the same as in a small one: eager credits follow what
// the peers use, so neighbours need not share the window with the whole job.
#include <array>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {
namespace {

using network::Pattern;

struct Load {
  const char* name;
  Pattern pattern;
  std::uint32_t rounds;
};
constexpr std::array loads = {
    Load{"halo-2d", Pattern::halo_2d, 200}, Load{"halo-3d", Pattern::halo_3d, 200},
    Load{"sparse", Pattern::sparse, 200},   Load{"all-to-all", Pattern::all_to_all, 0},
    Load{"all-to-one", Pattern::incast, 8},
};

// One switch: the fabric is the same for everybody.
network::Scenario scenario_of(const Load& load, std::uint32_t processes) {
  network::Scenario scenario;
  scenario.fabric.topology = {.shape = network::Shape::single_switch, .ports = processes};
  scenario.endpoints = network::EndpointsAre::core;
  scenario.pattern = load.pattern;
  scenario.rounds = load.rounds;
  scenario.message_bytes = 4'000;
  if (load.pattern == Pattern::all_to_all) scenario.rounds = 2 * processes;
  if (load.pattern == Pattern::incast) {
    scenario.receivers = 1;
    scenario.senders = processes - 1;
  }
  return scenario;
}

std::uint32_t most_of(const Load& load, Size size) {
  if (size == Size::smoke) return 64;
  return load.pattern == Pattern::all_to_all ? 256 : 512;  // pairs of queues are memory
}

}  // namespace

Figure core_scale(Size size) {
  Figure figure;
  for (const Load& load : loads) {
    const std::uint32_t most = most_of(load, size);
    if (size == Size::smoke && load.pattern == Pattern::halo_3d) continue;
    for (std::uint32_t n = 16; n <= most; n *= size == Size::full ? 2 : 4) {
      Point point = figures::point(load.name, n, scenario_of(load, n), 1);
      point.cost = n * 0.01;
      point.play = [play = point.play, n](std::uint64_t seed) {
        Measured measured = play(seed);
        measured.values.emplace_back("rate",
                                     measured["received"] / n / measured["mean_us"] * 1'000);
        return measured;
      };
      figure.points.push_back(std::move(point));
    }
  }
  figure.claims = [size](const Results& results) {
    Values claims;
    for (const Load& load : loads) {
      if (size == Size::smoke && load.pattern == Pattern::halo_3d) continue;
      const std::string name = load.name;
      const std::uint32_t most = most_of(load, size);
      const auto at = [&](double n, const char* value) { return results.mean(name, n, value); };
      // Of what all send to one, the one's rate.
      const char* const rate = load.pattern == Pattern::incast ? "throughput" : "rate";
      const double receivers = load.pattern == Pattern::incast ? most / 16.0 : 1;
      claims.emplace_back(name + "-speed", receivers * at(most, rate) / at(16, rate));
      claims.emplace_back(name + "-memory", at(most, "memory_kib"));
      claims.emplace_back(name + "-control", at(most, "control_share"));
    }
    return claims;
  };
  return figure;
}

}  // namespace weir::sim::figures
