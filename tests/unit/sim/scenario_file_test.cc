#include "tools/sim/scenario/scenario_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tools/sim/network/whole_core.h"
#include "transport/config/schema.h"
#include "transport/config/settings.h"

namespace weir::sim {
namespace {

// The one mistake of `text`.
std::string only(const std::string& text) {
  const ScenarioFile file = parse_scenario(text, "s.yaml");
  EXPECT_EQ(file.problems.size(), 1u) << text;
  return file.problems.empty() ? "" : config::to_text(file.problems.front());
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ScenarioFile, TheShippedOnesAreGood) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEIR_CONF "/sim")) {
    if (entry.path().extension() != ".yaml") continue;
    const ScenarioFile file = read_scenario(entry.path());
    for (const config::Problem& problem : file.problems) ADD_FAILURE() << config::to_text(problem);
    ++count;
  }
  EXPECT_GE(count, 5);
}

TEST(ScenarioFile, TheShippedOnesPlay) {
  for (const auto& entry : std::filesystem::directory_iterator(WEIR_CONF "/sim")) {
    if (entry.path().extension() != ".yaml") continue;
    SCOPED_TRACE(entry.path().string());
    network::Scenario scenario = read_scenario(entry.path()).scenario;
    scenario.from_cycles = 0;
    scenario.to_cycles = 1'500;
    scenario.rounds = 2;
    const network::Measured measured = network::run(scenario, 1);
    EXPECT_EQ(measured.violation, "");
    EXPECT_GT(measured["throughput"], 0);
  }
}

TEST(ScenarioFile, AnEmptyOneHasTheDefaultsThatTheKeysTell) {
  std::string text;
  for (const ScenarioKey& key : scenario_keys()) {
    text += std::string(key.form.name) + ": " + key.form.fallback + "\n";
  }
  const ScenarioFile written = parse_scenario(text, "s.yaml");
  for (const config::Problem& problem : written.problems) {
    ADD_FAILURE() << config::to_text(problem);
  }
  const network::Scenario& a = written.scenario;
  const network::Scenario b = parse_scenario("", "s.yaml").scenario;
  const network::Scenario c;  // what the figures begin with
  EXPECT_EQ(a.fabric.topology.nodes(), 5'256u);
  EXPECT_EQ(b.fabric.topology.nodes(), c.fabric.topology.nodes());
  for (const network::Scenario* s : {&a, &b}) {
    EXPECT_EQ(s->fabric.vc_flits, c.fabric.vc_flits);
    EXPECT_EQ(s->fabric.threshold, c.fabric.threshold);
    EXPECT_EQ(s->fabric.local_cycles, c.fabric.local_cycles);
    EXPECT_EQ(s->fabric.global_cycles, c.fabric.global_cycles);
    EXPECT_EQ(s->fabric.node_cycles, c.fabric.node_cycles);
    EXPECT_EQ(s->from_cycles, c.from_cycles);
    EXPECT_EQ(s->to_cycles, c.to_cycles);
    EXPECT_EQ(s->queue_bytes, c.queue_bytes);
    EXPECT_EQ(s->rounds, c.rounds);
    EXPECT_EQ(s->message_bytes, c.message_bytes);
    EXPECT_EQ(s->eager_bytes, c.eager_bytes);
    EXPECT_DOUBLE_EQ(s->cycle_ns, c.cycle_ns);
    EXPECT_EQ(s->window_initial, c.window_initial);
    EXPECT_EQ(s->window_max, c.window_max);
    EXPECT_EQ(s->processes, c.processes);
  }
}

TEST(ScenarioFile, WhatIsLeftToTheTransportIsWhatItDoes) {
  const config::Settings settings = config::defaults();
  EXPECT_EQ(settings.window_max, config::automatic);
  EXPECT_EQ(network::Scenario{}.window_initial, settings.window_initial);
  network::Scenario scenario;
  scenario.fabric.topology = {.p = 2, .a = 2, .h = 1};
  const Core::Config core = network::core_plan(scenario, 1).engine.core;
  EXPECT_EQ(core.window.max, config::window_max_auto);
  EXPECT_EQ(core.window_unasked, config::window_unasked_auto);
  EXPECT_EQ(core.window.most, settings.receive_memory_bytes / core.buffer_bytes);
}

TEST(ScenarioFile, UnitsAreTurnedIntoFlitsAndCycles) {
  const ScenarioFile file = parse_scenario(
      "link_rate: 204.8Gbit/s\nlocal_latency: 100ns\nbuffers: 32KiB\nslow: 1%@8x, 5@2x\n"
      "threshold: 2560B\nfrom: 1us\nto: 2us\n",
      "s.yaml");
  ASSERT_TRUE(file.problems.empty()) << config::to_text(file.problems.front());
  const network::Scenario& s = file.scenario;
  EXPECT_DOUBLE_EQ(s.cycle_ns, 10);
  EXPECT_EQ(s.fabric.local_cycles, 10u);
  EXPECT_EQ(s.fabric.vc_flits, 128u);
  EXPECT_EQ(s.fabric.threshold, 10);
  EXPECT_EQ(s.from_cycles, 100u);
  ASSERT_EQ(s.slow.size(), 2u);
  EXPECT_EQ(s.slow[0].nodes, 53u);
  EXPECT_EQ(s.slow[0].factor, 8u);
  EXPECT_EQ(s.slow[1].nodes, 5u);
}

TEST(ScenarioFile, MistakesAreNamedWithTheirLine) {
  EXPECT_TRUE(says(only("p: 2\nbufers: 64KiB\n"), "s.yaml:2: bufers: "));
  EXPECT_TRUE(says(only("p: 2\nbufers: 64KiB\n"), "did you mean buffers?"));
  EXPECT_TRUE(says(only("xyzzy_plugh: 1"), "there is no such key; 'weir sim run --help'"));
  EXPECT_TRUE(says(only("routing: shortest"), "minimal, valiant, progressive"));
  EXPECT_TRUE(says(only("buffers: 64"), "4KiB to 16MiB"));
  EXPECT_TRUE(says(only("buffers: 64KB"), "s.yaml:1: buffers: "));
  EXPECT_TRUE(says(only("link_rate: 100"), "100Gbit/s"));
  EXPECT_TRUE(says(only("bias: high"), "0 to 100"));
  for (const char* const slow : {"1% at 8x", "200%@8x", "1%@8", "1@x", "1@0x", "-1@2x", "1.5@2x",
                                 "1@2.5x", "6000@2x", "8x", "1@2x,,2@2x"}) {
    EXPECT_TRUE(says(only(std::string("slow: ") + slow), "1%@8x")) << slow;
  }
  EXPECT_TRUE(says(only("reads_max: many"), "s.yaml:1: reads_max: "));
  EXPECT_TRUE(says(only("pattern: halo"), "halo_2d"));
  EXPECT_TRUE(says(only("endpoints: core\nbudget: rank"), "node, process, connection"));
  EXPECT_TRUE(says(only("p: [1, 2]"), "s.yaml:1: p: is a list"));
  EXPECT_TRUE(
      says(config::to_text(read_scenario("/nowhere.yaml").problems.at(0)), "cannot be read"));
}

TEST(ScenarioFile, MistakesOfTheWholeAreNamedWithTheLineAtFault) {
  const auto is = [](const std::string& text, const std::string& place, const std::string& what) {
    const std::string told = only(text);
    EXPECT_TRUE(told.find(place) == 0 && says(told, what)) << text << "\n" << told;
  };
  is("from: 2us\nto: 1us\np: 2", "s.yaml:2: to: ", "later than");
  is("p: 2\nfrom: 1s\nh: 2", "s.yaml:2: from: ", "later than");
  is("p: 64\na: 64\nh: 32\nbias: 2", "s.yaml:1: p: ", "at most 100000");
  is("slow: 40@2x, 50@8x\np: 2\na: 4\nh: 2", "s.yaml:1: slow: ", "they are 90 nodes");
  is("slow: 60%@2x, 60%@8x\np: 2\na: 4\nh: 2", "s.yaml:1: slow: ", "the fabric has 72");
  is("receivers: 73\npattern: incast\np: 2\na: 4\nh: 2", "s.yaml:1: receivers: ", "1 to 72");
  is("senders: 72\nreceivers: 1\npattern: incast\np: 2\na: 4\nh: 2",
     "s.yaml:1: senders: ", "the 71 other nodes");
  is("receivers: 3\np: 2", "s.yaml:1: receivers: ", "only 'pattern: incast'");
  is("pattern: incast\np: 2", "s.yaml:1: pattern: ", "1 to ");
  is("ports: 20\ntopology: dragonfly", "s.yaml:1: ports: ", "only 'topology: single_switch'");
  is("spines: 20\np: 2", "s.yaml:1: spines: ", "only 'topology: fat_tree'");
  is("h: 2\ntopology: fat_tree", "s.yaml:1: h: ", "only 'topology: dragonfly'");
  is("pattern: halo_2d\np: 2", "s.yaml:1: pattern: ", "only 'endpoints: core'");
  is("processes: 2\np: 2", "s.yaml:1: processes: ", "only 'endpoints: core'");
  is("ecn: default\nprotocol: reads", "s.yaml:1: ecn: ", "only 'protocol: push'");
  const std::string core = "endpoints: core\np: 2\na: 4\nh: 2\n";
  is("endpoints: core\np: 4\na: 8\nh: 5", "s.yaml:1: endpoints: ", "at most 1152");
  is(core + "window_initial: 300\nwindow_max: 256",
     "s.yaml:5: window_initial: ", "more than window_max");
  is(core + "processes: 20", "s.yaml:5: processes: ", "1440 processes; at most 1152");
  is(core + "processes: 33", "s.yaml:5: processes: ", "1 to 32");
  is(core + "reads_max: auto\nbudget: connection", "s.yaml:5: reads_max: ", "does not adapt");
  is(core + "to: 5ms", "s.yaml:5: to: ", "only 'endpoints: models'");
  is(core + "ecn: default", "s.yaml:5: ecn: ", "only 'protocol: push'");
  // 10 s are 5 * 10^10 cycles of .2 ns: what is more than 32 bits is not cut off.
  is("to: 10s\nlink_rate: 10000Gbit/s", "s.yaml:1: to: ", "1,000,000,000 cycles");
}

}  // namespace
}  // namespace weir::sim
