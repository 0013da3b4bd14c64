// Whether an application computes, as an event thread sees it that looks now and then.
#include "transport/drive/absence.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

// An application that calls progress before each look of the thread, or not.
struct Watcher {
  Absence absence{};
  Time now{};
  std::uint64_t visits = 0;

  bool look(Duration after, bool application_looks, bool heard = false, bool waits = false) {
    now = now + after;
    if (application_looks) ++visits;
    return absence.look(now, visits, heard, waits);
  }
  void attend(Duration time) {
    EXPECT_TRUE(look(milliseconds(1), false));
    for (const Time end = now + time; now < end;) EXPECT_FALSE(look(microseconds(100), true));
  }
};

TEST(Absence, WhoHasNotCalledForASixteenthOfTheTimeComputes) {
  Watcher thread;
  thread.attend(milliseconds(16));
  EXPECT_FALSE(thread.look(microseconds(990), false));
  EXPECT_TRUE(thread.look(microseconds(20), false));
  EXPECT_TRUE(thread.look(microseconds(1), false));
}

TEST(Absence, OneWhoHasLongCalledIsMissedAfterEightMilliseconds) {
  Watcher thread;
  thread.attend(seconds(1));
  EXPECT_FALSE(thread.look(microseconds(7990), false));
  EXPECT_TRUE(thread.look(microseconds(10), false));
}

TEST(Absence, AFirstCallAfterAComputationIsNotTrustedForLong) {
  Watcher thread;
  EXPECT_TRUE(thread.look(milliseconds(100), false));
  EXPECT_FALSE(thread.look(microseconds(10), true));
  EXPECT_TRUE(thread.look(microseconds(50), false));
}

TEST(Absence, ALongCallIsNoComputationOnceItWasFoundOut) {
  Watcher thread;
  thread.attend(milliseconds(16));
  EXPECT_TRUE(thread.look(microseconds(1010), false));
  thread.absence.was_in_vain();
  EXPECT_FALSE(thread.look(microseconds(10), true));
  EXPECT_FALSE(thread.look(microseconds(990), false));
  EXPECT_TRUE(thread.look(microseconds(200), false));
  // Somebody was stood in for: it computes.
  EXPECT_FALSE(thread.look(microseconds(10), true));
  EXPECT_TRUE(thread.look(microseconds(100), false));
}

// The application took what the event was about.
TEST(Absence, WhoStandsInIsCalledOnceUntilNothingWaits) {
  Absence absence;
  EXPECT_FALSE(absence.calls(Time{} + milliseconds(1), 3, false, true)) << "it has just called";
  EXPECT_FALSE(absence.calls(Time{} + milliseconds(3), 3, false, false)) << "nothing waits";
  EXPECT_TRUE(absence.calls(Time{} + milliseconds(5), 3, false, true));
  EXPECT_EQ(absence.visits_when_called(), 3u);
  EXPECT_FALSE(absence.calls(Time{} + milliseconds(7), 3, false, true));
  EXPECT_TRUE(absence.still_waits(true));
  EXPECT_FALSE(absence.calls(Time{} + milliseconds(9), 3, false, true));
  EXPECT_FALSE(absence.still_waits(false));
  EXPECT_TRUE(absence.calls(Time{} + milliseconds(11), 3, false, true));
}

TEST(Absence, AfterAnEventInVainTheThreadDoesNotListenForOnePause) {
  Watcher thread;
  thread.attend(milliseconds(16));
  EXPECT_TRUE(thread.absence.listens());
  EXPECT_FALSE(thread.look(microseconds(100), true, true));
  EXPECT_FALSE(thread.absence.listens());
  const Duration nap = thread.absence.nap(seconds(1), thread.now);
  EXPECT_GE(nap, milliseconds(1));
  EXPECT_LE(nap, microseconds(1100));
  EXPECT_FALSE(thread.look(nap, true));
  EXPECT_TRUE(thread.absence.listens());
  EXPECT_EQ(thread.absence.nap(seconds(1), thread.now), seconds(1));
}

// So the look at the end of the pause finds it computing: one pause is enough.
TEST(Absence, AnEventThatFindsItComputingWaitsForOnePause) {
  Watcher thread;
  thread.attend(milliseconds(16));
  EXPECT_FALSE(thread.look(microseconds(10), true, true, true));
  EXPECT_TRUE(thread.look(thread.absence.nap(seconds(1), thread.now), false, false, true));
  EXPECT_TRUE(thread.absence.listens());
}

TEST(Absence, ItDoesNotListenWhileTheApplicationHasYetToTakeWhatThereIs) {
  Watcher thread;
  thread.attend(milliseconds(16));
  EXPECT_FALSE(thread.look(microseconds(10), true, true, true));
  EXPECT_FALSE(thread.look(milliseconds(2), true, false, true));
  EXPECT_FALSE(thread.absence.listens());
}

// Who stands in, with an application that calls now and then.
struct Dozer {
  UnaskedTurns turns{};
  Time now = Time{} + seconds(100);
  std::uint64_t visits = 7;

  Duration look(Duration after, bool called) {
    now = now + after;
    if (called) ++visits;
    return turns.pause(now, visits);
  }
};

TEST(UnaskedTurns, ComeSoonAfterACallAndThenMoreAndMoreSeldom) {
  Dozer thread;
  thread.look({}, true);
  EXPECT_FALSE(thread.turns.is_away());
  Duration last{};
  int looks = 0;
  for (Duration since{}; since < seconds(4); ++looks) {
    const Duration pause = thread.look(last, false);
    EXPECT_TRUE(thread.turns.is_away());
    EXPECT_GE(pause, last);
    since = Duration{since.ns + last.ns};
    EXPECT_LE(pause, std::max(since / 4, microseconds(100)));
    last = pause;
  }
  EXPECT_EQ(thread.look(seconds(100), false), UnaskedTurns::longest);
  EXPECT_LT(looks, 60);
}

TEST(UnaskedTurns, DoNotDisturbWhoCallsAllTheTime) {
  Dozer thread;
  thread.look({}, true);
  Duration pause = microseconds(100);
  for (int i = 0; i < 100; ++i) {
    pause = thread.look(pause, true);
    EXPECT_FALSE(thread.turns.is_away());
  }
  EXPECT_EQ(pause, milliseconds(8));
  // One who calls for a moment only may have begun something.
  thread.look(pause, false);
  EXPECT_EQ(thread.look(seconds(1), true), microseconds(100));
}

}  // namespace
}  // namespace weir
