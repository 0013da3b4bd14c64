// When the event thread looks, in a world whose time the test moves.
#include "transport/drive/attendance.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir {
namespace {

// An event thread beside an application that begins a round, or not, before each of its looks.
struct Thread {
  Attendance attendance{Time{}};
  Time now{};
  std::uint64_t round = 0;
  bool needed = true;
  bool shares = false;
  Time deadline = Time::never();

  // Sleeps and looks once. True if the application was absent.
  bool look(bool application_looks = false, bool helps = false) {
    now = now + nap();
    if (application_looks) ++round;
    const bool absent = attendance.begin(now, round);
    attendance.end(round, needed, helps, shares);
    return absent;
  }
  Duration nap() { return attendance.nap(needed, now, deadline); }
};

TEST(Attendance, TicksBecomeLongerWhileTheyDoNotHelp) {
  Thread thread;
  std::int64_t ticks[6];
  for (std::int64_t& tick : ticks) {
    tick = thread.nap().ns / 1'000'000;
    EXPECT_TRUE(thread.look());
  }
  EXPECT_EQ((std::vector<std::int64_t>(ticks, ticks + 6)),
            (std::vector<std::int64_t>{1, 2, 4, 8, 16, 16}));
  thread.look(false, true);
  EXPECT_EQ(thread.nap(), milliseconds(1));
}

TEST(Attendance, AnApplicationThatLooksIsNotAbsent) {
  Thread thread;
  EXPECT_TRUE(thread.look());
  EXPECT_FALSE(thread.look(true));
  EXPECT_TRUE(thread.look());
}

TEST(Attendance, WhoIsSeenToLookIsLookedAfterSeldom) {
  Thread thread;
  while (thread.now < Time{} + milliseconds(2000)) thread.look(true, true);
  EXPECT_EQ(thread.nap(), milliseconds(32));
  thread.look();  // and computes from here on: a tick that helps is followed by a short one
  thread.look(false, true);
  EXPECT_EQ(thread.nap(), milliseconds(1));
}

// Others of the node would take it for one that stands still after 20 ms.
TEST(Attendance, WhoHasWhatOthersWaitForIsLookedAfterOften) {
  for (const bool looks : {false, true}) {
    Thread thread;
    while (thread.now < Time{} + milliseconds(2000)) thread.look(looks);
    EXPECT_EQ(thread.nap(), milliseconds(looks ? 32 : 16));
    EXPECT_TRUE(thread.attendance.is_too_long_for_sharers());
    thread.shares = true;
    thread.look(looks);
    EXPECT_FALSE(thread.attendance.is_too_long_for_sharers());
    for (int i = 0; i < 10; ++i) thread.look(looks);
    EXPECT_EQ(thread.nap(), Attendance::longest_shared_tick);
    EXPECT_FALSE(thread.attendance.is_too_long_for_sharers());
  }
}

TEST(Attendance, SleepsWhenNothingHasWaitedForAWhile) {
  Thread thread;
  thread.needed = false;
  for (int i = 0; i < 100; ++i) thread.look();
  EXPECT_EQ(thread.nap(), seconds(1));
  EXPECT_TRUE(thread.attendance.asleep());
  thread.deadline = thread.now + milliseconds(70);
  EXPECT_EQ(thread.nap(), milliseconds(71));  // whole milliseconds, and not before it
  thread.deadline = thread.now + Duration{-milliseconds(70).ns};
  EXPECT_EQ(thread.nap(), Duration{});
}

TEST(Attendance, StaysAwakeAsLongAsSomethingWaits) {
  Thread thread;
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(thread.nap(), milliseconds(16));
    thread.look();
  }
  EXPECT_FALSE(thread.attendance.asleep());
}

TEST(Attendance, WhoIsWokenTicksShortlyAgain) {
  Thread thread;
  thread.needed = false;
  for (int i = 0; i < 100; ++i) thread.look();
  thread.nap();
  ASSERT_TRUE(thread.attendance.asleep());
  thread.attendance.wake();
  EXPECT_FALSE(thread.attendance.asleep());
  thread.attendance.on_woken();
  EXPECT_EQ(thread.nap(), milliseconds(1));
}

TEST(Attendance, LooksForALostLimitEventEverySecond) {
  Thread thread;
  EXPECT_FALSE(thread.attendance.is_limit_look_due(Time{} + milliseconds(999)));
  EXPECT_TRUE(thread.attendance.is_limit_look_due(Time{} + seconds(1)));
  EXPECT_FALSE(thread.attendance.is_limit_look_due(Time{} + milliseconds(1999)));
}

}  // namespace
}  // namespace weir
