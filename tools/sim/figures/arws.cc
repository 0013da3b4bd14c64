// [ARWS]'s figures 2 and 3 in shape: what receive memory the shipped receive pool settles at and
// what that costs, against a window of 512 that is there from the start; and what the RNR timer
// does where W_max is too small for the peers.
#include <map>
#include <span>
#include <string>

#include "tools/sim/figures/figure.h"
#include "tools/sim/world.h"

namespace weir::sim::figures {
namespace {

constexpr std::uint32_t side = 4;  // of the halo's torus and the wavefront's grid
constexpr std::uint32_t processes = side * side;
// The window that is there from the start, beside adaptive ones.
constexpr std::uint32_t fixed_window = 512;

enum class Load : std::uint8_t { all_to_all, halo, wavefront, to_one };

struct Named {
  const char* name;
  Load load;
};
constexpr Named all_loads[] = {{"all-to-all", Load::all_to_all},
                               {"halo", Load::halo},
                               {"wavefront", Load::wavefront},
                               {"all-to-one", Load::to_one}};

// The one that takes long is for the full size.
std::span<const Named> loads(Size size) {
  return std::span(all_loads).subspan(size == Size::full ? 0 : 1);
}

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
  std::uint32_t initial = 8;
  std::uint32_t most = 0;   // W_max
  std::uint8_t timer = 12;  // RNR, by its code: 0.64 ms
  bool learns = false;      // the timer
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
  return {.series = series, .x = x, .seeds = 2, .play = [=](std::uint64_t seed) {
            return play(plan_of(load, window, seed), [](const Outcome& outcome) {
              return Values{
                  {"memory_kib", static_cast<double>(outcome.receive_bytes_peak) / 1024},
                  {"time_us", static_cast<double>(outcome.last_served.ns) / 1000},
                  {"window", outcome.window},
                  {"overcommitted", static_cast<double>(outcome.total.credits_overcommitted)},
                  {"rnr_naks", static_cast<double>(outcome.rnr_naks)}};
            });
          }};
}

}  // namespace

Plan arws_world(std::uint64_t seed) { return plan_of(Load::halo, {.most = 256}, seed); }

std::vector<Point> arws_fig2(Size size) {
  std::vector<Point> points;
  for (const auto& [name, load] : loads(size)) {
    for (const std::uint32_t most :
         axis(size, {16, 32, 64, 128, 256, 512, 1024, 4096}, {16, 256})) {
      points.push_back(arws_point(name, most, load, {.most = most}));
    }
    points.push_back(arws_point(std::string(name) + ", fixed", fixed_window, load,
                                {.initial = fixed_window, .most = fixed_window}));
  }
  return points;
}

std::vector<Point> arws_fig3(Size size) {
  // Timers in us, and by their codes. [IBTA table 45]
  const Axis times = axis(size, {10, 80, 640, 5'120, 40'960, 655'360}, {10, 5'120});
  const std::map<std::uint32_t, std::uint8_t> codes = {{10, 1},     {80, 6},      {640, 12},
                                                       {5'120, 18}, {40'960, 24}, {655'360, 0}};
  std::vector<Point> points;
  for (const auto& [name, load] : loads(size)) {
    const bool runs_dry = load == Load::all_to_all || load == Load::to_one;
    for (const std::uint32_t most : {16u, 32u}) {
      const std::string series = std::string(name) + ", W_max " + std::to_string(most);
      for (const std::uint32_t us : times) {
        Window window{.most = most, .timer = codes.at(us)};
        points.push_back(arws_point(series, us / 1000.0, load, window));
        if (most != 16 || !runs_dry) continue;
        window.learns = true;
        points.push_back(arws_point(series + ", auto", us / 1000.0, load, window));
      }
    }
  }
  return points;
}

}  // namespace weir::sim::figures
