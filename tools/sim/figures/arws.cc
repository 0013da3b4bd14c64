// [ARWS]'s figure 2 in shape: what receive memory the shipped receive pool settles at, and what
// that costs, against a window of 512 that is there from the start.
#include <array>

#include "tools/sim/figures/figure.h"
#include "tools/sim/world.h"

namespace weir::sim::figures {
namespace {

constexpr std::uint32_t side = 4;  // of the halo's torus
constexpr std::uint32_t processes = side * side;
constexpr std::uint32_t fixed_window = 512;

enum class Load : std::uint8_t { all_to_all, halo, to_one };

struct Named {
  const char* name;
  Load load;
};
constexpr std::array loads = {Named{"all-to-all", Load::all_to_all}, Named{"halo", Load::halo},
                              Named{"all-to-one", Load::to_one}};

bool talks(Load load, std::uint32_t from, std::uint32_t to) {
  if (from == to) return false;
  if (load == Load::all_to_all) return true;
  if (load == Load::to_one) return to == 0;
  const std::uint32_t dx = (from % side + side - to % side) % side;
  const std::uint32_t dy = (from / side + side - to / side) % side;
  return (dx == 0 && (dy == 1 || dy == side - 1)) || (dy == 0 && (dx == 1 || dx == side - 1));
}

Plan plan_of(Load load, std::uint32_t initial, std::uint32_t most, std::uint64_t seed) {
  Plan plan;
  plan.seed = seed;
  Core::Config& core = plan.engine.core;
  core.buffer_bytes = 4096;
  core.window = {.initial = initial, .max = most};
  core.shrink_after = {};
  for (Node from = 0; from < processes; ++from) {
    Script script;
    for (Node to = 0; to < processes; ++to) {
      script.messages.push_back(talks(load, from, to) ? (load == Load::to_one ? 400 : 150) : 0);
    }
    script.burst = 4;
    script.turn = microseconds(load == Load::all_to_all ? 16 : 4);  // what a receiver can take
    script.small_permille = 0;
    script.notify_permille = 0;
    script.compute_permille = 20;
    script.compute = microseconds(50);
    plan.scripts.push_back(script);
    plan.limit_styles.push_back(SrqLimitStyle::hardware);
  }
  return plan;
}

Point arws_point(const std::string& series, double x, Load load, std::uint32_t initial,
                 std::uint32_t most) {
  return {.series = series, .x = x, .seeds = 2, .cost = 0.3, .play = [=](std::uint64_t seed) {
            return sample(plan_of(load, initial, most, seed), [](const Outcome& outcome) {
              return Values{{"memory_kib", static_cast<double>(outcome.receive_bytes_peak) / 1024},
                            {"time_us", static_cast<double>(outcome.last_served.ns) / 1000},
                            {"rnr_naks", static_cast<double>(outcome.rnr_naks)}};
            });
          }};
}

}  // namespace

Figure arws_fig2(Size size) {
  Figure figure;
  figure.title = "Receive memory of an adaptive window";
  figure.source = "[ARWS] Fig. 2";
  figure.shows =
      "With W_max 256 and more, applications run as fast as with a fixed window of 512, with a "
      "part of its receive memory, for the window stays where the traffic needs it.";
  figure.differs =
      "16 processes with invented traffic and the protocol core that ships: senders hold credits "
      "for "
      "posted buffers, so RNR NAKs, and with them the paper's Fig. 3 (the RNR timer), do not come "
      "up. tests/bench/arws measures both figures with applications on Soft-RoCE.";
  figure.x_label = "W_max, buffers of 4 KiB";
  figure.y_label = "peak receive memory of a process, KiB";
  figure.y = "memory_kib";
  figure.log_x = figure.log_y = true;
  for (const Named& load : loads) {
    if (size == Size::smoke && load.load == Load::all_to_all) continue;
    for (const std::uint32_t most : {64u, 128u, 256u, 512u, 1024u, 4096u}) {
      if (size == Size::smoke && most != 256) continue;
      figure.points.push_back(arws_point(load.name, most, load.load, 8, most));
    }
    figure.points.push_back(arws_point(std::string(load.name) + ", fixed", fixed_window, load.load,
                                       fixed_window, fixed_window));
  }
  figure.claims = [size](const Results& results) {
    std::vector<Claim> claims;
    for (const Named& load : loads) {
      if (size == Size::smoke && load.load == Load::all_to_all) continue;
      const std::string name = load.name;
      const auto of_fixed = [&](const char* value) {
        return results.mean(name + ", fixed", fixed_window, value) / results.mean(name, 256, value);
      };
      claims.push_back({name + "-memory", name + ": times less memory, W_max 256", "many",
                        of_fixed("memory_kib")});
      claims.push_back({name + "-speed", name + ": speed, of the fixed window's", "about 1",
                        of_fixed("time_us")});
    }
    return claims;
  };
  return figure;
}

}  // namespace weir::sim::figures
