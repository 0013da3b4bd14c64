// When the bell is rung for who stands in for the application, and who gives way.
#include "transport/engine/stand_in.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace weir {
namespace {

constexpr Time at(std::int64_t ms) { return {milliseconds(ms).ns}; }

struct StandInTest : testing::Test {
  StandInTest() { stand_in.set_bell(bell, application); }
  ~StandInTest() override { ::close(bell); }
  std::uint64_t rings() const {
    std::uint64_t count = 0;
    return ::read(bell, &count, sizeof count) == sizeof count ? count : 0;
  }

  const int bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  StandIn application;  // of the first rail
  StandIn stand_in;
};

TEST_F(StandInTest, RingsOnceUntilSomebodyHasLooked) {
  application.visit();
  stand_in.look(at(1), false, true);  // it was just there
  EXPECT_EQ(rings(), 0u);
  stand_in.look(at(100), false, true);
  EXPECT_EQ(rings(), 1u);
  EXPECT_EQ(stand_in.visits_when_rung(), 1u);
  stand_in.look(at(200), false, true);
  EXPECT_EQ(rings(), 0u);
  EXPECT_TRUE(stand_in.on_look(true));  // something still waits
  stand_in.look(at(300), false, true);
  EXPECT_EQ(rings(), 0u);
  EXPECT_FALSE(stand_in.on_look(false));
  stand_in.look(at(400), false, true);
  EXPECT_EQ(rings(), 1u);
}

TEST_F(StandInTest, DoesNotRingForNothing) {
  stand_in.look(at(100), false, false);
  EXPECT_EQ(rings(), 0u);
}

TEST_F(StandInTest, CountsTheVisitsOfTheFirstRail) {
  application.visit();
  stand_in.visit();
  stand_in.visit();
  EXPECT_EQ(stand_in.application_visits(), 1u);
  EXPECT_EQ(stand_in.visits(), 2u);
}

TEST_F(StandInTest, TheApplicationGivesWayNowAndThen) {
  constexpr ThreadMark other{1};
  constexpr ThreadMark stranger{2};
  stand_in.begin(other);
  int yields = 0;
  for (int i = 0; i < 64; ++i) yields += stand_in.meets(other) ? 1 : 0;
  EXPECT_EQ(yields, 4);
  for (int i = 0; i < 64; ++i) EXPECT_FALSE(stand_in.meets(stranger));
}

}  // namespace
}  // namespace weir
