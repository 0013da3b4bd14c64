// Messages of ranks beside a slow node: what it costs the others, when senders push and when
// receivers fetch within c.
#include <array>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {
namespace {

using network::Pattern;
using network::Protocol;
using network::Scenario;

struct Load {
  const char* key;
  const char* name;
  Pattern pattern;
  std::uint32_t rounds;
  std::uint64_t bytes;
  std::uint64_t work_cycles;
};

constexpr std::array loads = {
    Load{"halo-2d", "halo 2D", Pattern::halo_2d, 3, 256 << 10, 0},
    Load{"halo-3d", "halo 3D", Pattern::halo_3d, 3, 128 << 10, 0},
    Load{"wavefront", "wavefront", Pattern::wavefront, 2, 64 << 10, 100},
    Load{"all-to-all", "all-to-all", Pattern::all_to_all, 8, 128 << 10, 0}};

constexpr std::uint32_t factor = 8;

Point load_point(Size size, const Load& load, std::uint32_t slow, Protocol protocol) {
  Scenario scenario;
  scenario.fabric.topology = size == Size::full ? middle_dragonfly() : small_dragonfly(Size::full);
  scenario.pattern = load.pattern;
  scenario.rounds = load.rounds;
  scenario.message_bytes = load.bytes;
  scenario.work_cycles = load.work_cycles;
  scenario.slow = {{slow, factor}};
  scenario.protocol = protocol;
  scenario.reads = 30;
  scenario.from_cycles = 0;
  scenario.to_cycles = 1'000'000;
  const std::string series =
      std::string(load.name) + (protocol == Protocol::push ? ", push" : ", reads");
  return point(series, slow, scenario, seeds(size), size == Size::full ? 3 : 0.1);
}

}  // namespace

Figure workloads(Size size) {
  Figure figure;
  for (const Load& load : loads) {
    for (const Protocol protocol : {Protocol::push, Protocol::reads}) {
      for (const std::uint32_t slow : {0u, 1u}) {
        figure.points.push_back(load_point(size, load, slow, protocol));
      }
    }
  }
  return figure;
}

}  // namespace weir::sim::figures
