// [ARWS]'s figures 2 and 3 in shape: what receive memory the shipped receive pool settles at and
// what that costs, against a window of 512 that is there from the start; and what the RNR timer
// does where W_max is too small for the peers.
#include <array>

#include "tools/sim/figures/figure.h"
#include "tools/sim/world.h"

namespace weir::sim::figures {
namespace {

constexpr std::uint32_t side = 4;  // of the halo's torus and the wavefront's grid
constexpr std::uint32_t processes = side * side;
constexpr std::uint32_t initial_window = 8;

// An RNR timer by its code. [IBTA table 45]
struct Timer {
  std::uint8_t code;
  double ms;
};
constexpr Timer shortest{1, 0.01};
constexpr Timer usual{12, 0.64};
constexpr Timer longer{18, 5.12};
constexpr std::array timers = {shortest, Timer{6, 0.08},   usual,
                               longer,   Timer{24, 40.96}, Timer{0, 655.36}};

enum class Load : std::uint8_t { all_to_all, halo, wavefront, to_one };

struct Named {
  const char* name;
  Load load;
};
constexpr std::array loads = {Named{"all-to-all", Load::all_to_all}, Named{"halo", Load::halo},
                              Named{"wavefront", Load::wavefront},
                              Named{"all-to-one", Load::to_one}};

bool talks(Load load, std::uint32_t from, std::uint32_t to) {
  if (from == to) return false;
  if (load == Load::all_to_all) return true;
  if (load == Load::to_one) return to == 0;
  if (load == Load::wavefront) {
    return (to == from + 1 && to % side != 0) || to == from + side;
  }
  const std::uint32_t dx = (from % side + side - to % side) % side;
  const std::uint32_t dy = (from / side + side - to / side) % side;
  return (dx == 0 && (dy == 1 || dy == side - 1)) || (dy == 0 && (dx == 1 || dx == side - 1));
}

struct Window {
  std::uint32_t initial = initial_window;
  std::uint32_t most = 0;  // W_max
  std::uint8_t timer = usual.code;
  bool learns = false;  // the timer
};

Plan plan_of(Load load, const Window& window, std::uint64_t seed) {
  Plan plan;
  plan.seed = seed;
  plan.timing.retries = seconds(10);  // nothing is lost; the longest RNR timer is 0.66 s
  Core::Config& core = plan.engine.core;
  core.buffer_bytes = 4096;
  core.window = {.initial = window.initial, .max = window.most};
  core.rnr_code = window.timer;
  core.rnr_auto = window.learns;
  core.shrink_after = {};
  for (Node from = 0; from < processes; ++from) {
    Script script;
    for (Node to = 0; to < processes; ++to) {
      script.messages.push_back(talks(load, from, to) ? (load == Load::to_one ? 400 : 150) : 0);
    }
    script.burst = 4;
    script.turn = microseconds(load == Load::all_to_all ? 16 : 4);  // what a receiver can take
    script.small_permille = 0;
    script.notify_permille = 1000;  // each send comes back, as ob1's do
    script.spins = true;
    script.compute_permille = 20;
    script.compute = microseconds(50);
    plan.scripts.push_back(script);
    plan.limit_styles.push_back(SrqLimitStyle::hardware);
  }
  return plan;
}

Point arws_point(const std::string& series, double x, Load load, const Window& window) {
  return {.series = series, .x = x, .seeds = 2, .cost = 0.3, .play = [=](std::uint64_t seed) {
            return figures::play(plan_of(load, window, seed), [](const Outcome& outcome) {
              return Values{
                  {"memory_kib", static_cast<double>(outcome.receive_bytes_peak) / 1024},
                  {"time_us", static_cast<double>(outcome.last_served.ns) / 1000},
                  {"window", outcome.window},
                  {"overcommitted", static_cast<double>(outcome.total.credits_overcommitted)},
                  {"rnr_naks", static_cast<double>(outcome.rnr_naks)}};
            });
          }};
}

// The long ones are for the full size.
bool is_played(Size size, Load load) { return size == Size::full || load != Load::all_to_all; }

}  // namespace

Plan arws_world(std::uint64_t seed) { return plan_of(Load::halo, {.most = 256}, seed); }

Figure arws_fig2(Size size) {
  Figure figure;
  for (const Named& load : loads) {
    if (!is_played(size, load.load)) continue;
    for (const std::uint32_t most :
         axis(size, {16, 32, 64, 128, 256, 512, 1024, 4096}, {16, 256})) {
      figure.points.push_back(arws_point(load.name, most, load.load, {.most = most}));
    }
    figure.points.push_back(arws_point(std::string(load.name) + ", fixed", fixed_window, load.load,
                                       {.initial = fixed_window, .most = fixed_window}));
  }
  return figure;
}

Figure arws_fig3(Size size) {
  Figure figure;
  for (const Named& load : loads) {
    if (!is_played(size, load.load)) continue;
    for (const std::uint32_t most : {16u, 32u}) {
      for (const Timer& timer : timers) {
        if (size == Size::smoke && timer.code != shortest.code && timer.code != longer.code)
          continue;
        figure.points.push_back(
            arws_point(std::string(load.name) + ", W_max " + std::to_string(most), timer.ms,
                       load.load, {.most = most, .timer = timer.code}));
        const bool runs_dry = load.load == Load::all_to_all || load.load == Load::to_one;
        if (most == 16 && runs_dry) {
          figure.points.push_back(arws_point(std::string(load.name) + ", W_max 16, auto", timer.ms,
                                             load.load,
                                             {.most = most, .timer = timer.code, .learns = true}));
        }
      }
    }
  }
  return figure;
}

}  // namespace weir::sim::figures
