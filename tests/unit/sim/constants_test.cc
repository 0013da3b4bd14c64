// What ships is what the figures draw: its constants move them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tools/sim/network/whole_core.h"
#include "tools/sim/scenario/scenario_file.h"
#include "tools/sim/world.h"

namespace weir::sim {
namespace {

Outcome played(const Plan& plan) {
  Outcome outcome = run(plan);
  EXPECT_TRUE(outcome.ok()) << outcome.violations.front();
  return outcome;
}

// On one switch.
Plan plan(const std::string& keys) {
  const ScenarioFile file =
      parse_scenario("topology: single_switch\nendpoints: core\nrounds: 400\n" + keys, "a test");
  EXPECT_TRUE(file.problems.empty());
  return network::core_plan(file.scenario, 1);
}

// Of arws-fig2, with W_max 256.
Plan window_plan(const std::string& pattern) {
  return plan("ports: 16\nmessage_size: 4000B\nwindow_max: 256\n" + pattern);
}
const std::string halo = "pattern: halo_2d\n";

TEST(Constants, OfTheReceiveWindowMoveArwsFig2) {
  Plan plan = window_plan(halo);
  const std::uint32_t buffer_bytes = plan.engine.core.buffer_bytes;
  const Outcome before = played(plan);
  plan.engine.core.window.max /= 4;
  const Outcome smaller = played(plan);
  EXPECT_EQ(smaller.receive_bytes_peak, plan.engine.core.window.max * buffer_bytes);
  EXPECT_LT(smaller.receive_bytes_peak * 2, before.receive_bytes_peak);

  plan = window_plan(halo);
  plan.engine.core.window.initial = plan.engine.core.window.max *= 2;
  EXPECT_GT(played(plan).receive_bytes_peak, before.receive_bytes_peak * 5 / 4);

  plan = window_plan(halo);
  plan.engine.core.shrink_after = microseconds(20);
  const Outcome shrunk = played(plan);
  EXPECT_GT(shrunk.total.window_shrinks, 0u);
}

// It is W_max at most, however long senders wait that find no buffer.
TEST(Constants, OfTheRnrTimerDoNotMoveReceiveMemory) {
  Plan plan = window_plan("pattern: incast\nreceivers: 1\nsenders: 15\n");
  plan.engine.core.window = {.initial = 4, .max = 4};
  for (const auto code : {std::uint8_t{1}, std::uint8_t{18}}) {  // 0.01 ms, 5.12 ms
    plan.engine.core.rnr_code = code;
    const Outcome outcome = played(plan);
    EXPECT_GT(outcome.rnr_naks, 0u);
    EXPECT_EQ(outcome.receive_bytes_peak, 4u * plan.engine.core.buffer_bytes);
  }
}

TEST(Constants, OfTokensMoveTokRate) {
  const auto rate = [](const Outcome& outcome) {
    return static_cast<double>(outcome.messages) /
           static_cast<double>((outcome.last_served - outcome.begun).ns);
  };
  Plan tokens = plan(
      "ports: 2\npattern: opposite\nmessage_size: 64B\ncontexts: 20\nwindow_initial: 4096\n"
      "window_max: 4096\nprocesses: 16\noutstanding: 64\nlimit: tokens\n");
  const Outcome twenty = played(tokens);
  EXPECT_EQ(twenty.tokens_out_most, 20u);
  // Tokens are fair: nobody is done long before the others.
  Time first = twenty.last_served;
  for (const Time served : twenty.served) {
    if (served > twenty.begun) first = std::min(first, served);
  }
  EXPECT_GT((first - twenty.begun).ns, (twenty.last_served - twenty.begun).ns * 4 / 5);
  tokens.engine.core.admission.tokens = 4;
  const Outcome four = played(tokens);
  EXPECT_EQ(four.tokens_out_most, 4u);
  EXPECT_LT(rate(four) * 1.5, rate(twenty));
  tokens.engine.core.admission.tokens = 200;  // the adapter's contexts are 20
  EXPECT_LT(rate(played(tokens)) * 1.5, rate(twenty));
}

}  // namespace
}  // namespace weir::sim
