// A process dies after each of the first events of small worlds, and at steps of the rest: whatever
// was under way, the others end in time, with everything that was lent back.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/contract/random_world.h"

namespace weir::sim {
namespace {

#ifdef __SANITIZE_ADDRESS__  // the same code without it plays all of them
constexpr std::uint64_t every_step = 120;
constexpr std::uint64_t spread = 50;
#else
constexpr std::uint64_t every_step = 400;  // from there on, so many evenly spread ones
constexpr std::uint64_t spread = 100;
#endif

class Death : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Death, AtEveryStep) {
  Plan plan = random_plan(GetParam());
  plan.faults.clear();
  plan.rounds = 1;
  const Outcome whole = run(plan);
  ASSERT_TRUE(whole.ok()) << whole.violations.front();
  const std::uint64_t stride = std::max<std::uint64_t>(1, whole.steps / spread);
  int lost = 0;
  for (std::uint64_t step = 1; step < whole.steps; step += step < every_step ? 1 : stride) {
    const bool told = step % 2 == 0;
    plan.faults = {{.kind = told ? Fault::Kind::kill_told : Fault::Kind::kill_silent,
                    .when = {},
                    .node = static_cast<Node>(step % plan.scripts.size()),
                    .step = step}};
    const Outcome outcome = run(plan);
    ASSERT_TRUE(outcome.ok()) << describe(plan) << " after event " << step << ": "
                              << outcome.violations.front();
    lost += outcome.total.peer_failures > 0 ? 1 : 0;
  }
  EXPECT_GT(lost, 0);  // somebody did notice
}

// Called by the world: AtEveryStep/4 is that of 4.
INSTANTIATE_TEST_SUITE_P(Worlds, Death, testing::Values(3, 4, 5, 6),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace weir::sim
