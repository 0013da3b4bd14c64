// Tokens and the proxy where messages share a fabric: all of the core in many processes of a node,
// on adapters that are a declared model (shared_adapter.h), the one of the tok figures.
#include <algorithm>
#include <array>
#include <string>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {
namespace {

constexpr std::uint32_t request_contexts = 20;  // [TOK §4], and the tokens
constexpr std::uint32_t pair_contexts = 64;     // of 768 queue pairs that 16 processes have

struct Series {
  const char* name;
  bool tokens = false;
  bool thresholds = false;
  bool proxy = false;
  std::uint32_t window_initial = 512;  // so that credits are no reason to wait, or to tell
  ContextOf of = ContextOf::request;
};
constexpr std::array all_series = {
    Series{.name = "no limit"},
    Series{.name = "ITT", .tokens = true},
    Series{.name = "Algorithm 1", .tokens = true, .thresholds = true},
    Series{.name = "Proxy", .proxy = true},
    Series{.name = "Proxy + ITT", .tokens = true, .proxy = true},
    Series{.name = "ITT, window from 8", .tokens = true, .window_initial = 8},
    Series{.name = "queue pairs, no limit", .of = ContextOf::queue_pair},
    Series{.name = "queue pairs, ITT", .tokens = true, .of = ContextOf::queue_pair}};

constexpr std::uint32_t most_processes(Size size) { return size == Size::full ? 16 : 8; }

// All to all, as many messages of a node however many processes send them: so many that answers
// that wait for their contexts hold up what is sent.
Point point_of(Size size, const Series& series, std::uint32_t processes) {
  network::Scenario scenario;
  scenario.fabric.topology = {.shape = network::Shape::single_switch,
                              .ports = size == Size::full ? 4u : 2u};
  scenario.endpoints = network::EndpointsAre::core;
  scenario.pattern = network::Pattern::all_to_all;
  scenario.rounds = 6'400 / processes;
  scenario.message_bytes = 1'000;
  scenario.processes = processes;
  scenario.window_initial = series.window_initial;
  const bool requests = series.of == ContextOf::request;
  scenario.context_cache = requests ? request_contexts : pair_contexts;
  scenario.context_of = series.of;
  scenario.tokens = series.tokens ? request_contexts : 0;
  scenario.thresholds = series.thresholds;
  if (series.thresholds) {
    scenario.cct = scenario.nrct = "4KiB=" + std::to_string(request_contexts);
  }
  scenario.proxy_servers = series.proxy ? 1 : 0;
  return point(series.name, processes, scenario, 1, (size == Size::full ? 0.05 : 0.01) * processes);
}

}  // namespace

Figure core_tokens(Size size) {
  Figure figure;
  for (const Series& series : all_series) {
    for (const std::uint32_t processes : {1u, 2u, 4u, 8u, 16u}) {
      const bool ends = processes == 1 || processes == most_processes(size);
      if (size == Size::smoke && !ends) continue;
      if (series.proxy && processes == 1) continue;  // it has nobody to send for
      figure.points.push_back(point_of(size, series, processes));
    }
  }
  figure.claims = [most = most_processes(size)](const Results& r) {
    const double straight = r.mean("Algorithm 1", most, "straight_through");
    return Values{
        {"straight", straight / (straight + r.mean("Algorithm 1", most, "token_requests"))}};
  };
  return figure;
}

}  // namespace weir::sim::figures
