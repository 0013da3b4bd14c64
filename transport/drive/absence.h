// Whether the application computes outside of MPI, so that the thread that stands in for it must be
// called. And whether the event thread listens for events of the adapter: frames that their senders
// want to be seen at once.
//
// An application that calls MPI takes its messages itself, and would lose its core to a thread that
// each message wakes. So after an event that it did not need, the thread does not listen for a
// while.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/time.h"

namespace weir {

class Absence {
 public:
  static constexpr Duration longest_pause = milliseconds(8);

  // The event thread has looked. `visits`: calls of progress so far; `heard`: an event woke the
  // thread; `waits`: something is there to hand up. True if the application computes.
  bool look(Time now, std::uint64_t visits, bool heard, bool waits) {
    if (visits != visits_seen_) {
      visits_seen_ = visits;
      seen_at_ = now;
    }
    const Duration pause =
        std::clamp((seen_at_ - away_at_) / attended_part, shortest_pause, longest_pause);
    if (now - seen_at_ >= pause) {
      if (!std::exchange(is_away_, true)) attended_since_ = away_at_;
      away_at_ = now;
      listen_at_ = {};
      return true;
    }
    is_away_ = false;
    if (heard || (now >= listen_at_ && waits)) {
      listen_at_ = now + pause;
    } else if (now >= listen_at_) {
      listen_at_ = {};
    }
    return false;
  }

  // The same; true if the stand-in is to be called. Once, until `still_waits` has said no.
  bool calls(Time now, std::uint64_t visits, bool heard, bool waits) {
    if (!look(now, visits, heard, waits) || !waits || called_) return false;
    called_ = true;
    visits_when_called_ = visits;
    return true;
  }
  // The stand-in has looked.
  bool still_waits(bool waits) { return called_ = waits; }
  std::uint64_t visits_when_called() const { return visits_when_called_; }

  // The stand-in found that the application had come back, and took nothing. The application had
  // not computed: it was in a long call, or without its core. Taken for one that computes, it would
  // be disturbed for each message.
  void was_in_vain() {
    if (away_at_ - seen_at_ < longest_pause) away_at_ = std::min(away_at_, attended_since_);
  }

  bool listens() const { return listen_at_ == Time{}; }
  // How long the thread is to sleep, at most `nap`.
  Duration nap(Duration nap, Time now) const {
    return listens() ? nap : std::min(nap, std::max(Duration{}, listen_at_ - now));
  }

 private:
  // An application computes if it has not called MPI for a sixteenth of the time for which it did
  // so before, within these bounds. What it loses when it begins to compute is then small in
  // comparison; and one that was only preempted is seldom taken for one that computes.
  static constexpr Duration shortest_pause = microseconds(50);
  static constexpr std::int64_t attended_part = 16;

  std::uint64_t visits_seen_ = 0;
  Time seen_at_{};         // when there were more
  Time away_at_{};         // when the application was last away
  Time attended_since_{};  // when it was away before that
  bool is_away_ = false;
  Time listen_at_{};  // until then it does not; zero: it does
  bool called_ = false;
  std::uint64_t visits_when_called_ = 0;
};

// When the stand-in lets Open MPI make progress unasked. A collective operation may begin with
// steps that need no other process. No message announces it, and its next steps wait until a thread
// looks. So looks come soon after the application has called MPI, when it may have begun one, and
// less and less often from then on. A call after a pause makes looks come soon again.
class UnaskedTurns {
 public:
  static constexpr Duration longest = seconds(1);

  // The pause from now on. `visits`: calls of progress so far.
  Duration pause(Time now, std::uint64_t visits) {
    const bool called = visits != visits_seen_;
    if (called) {
      if (is_away_) called_since_ = now;
      visits_seen_ = visits;
      seen_at_ = now;
    }
    is_away_ = !called;
    const Duration tried = is_away_ ? (now - seen_at_) / 4 : (now - called_since_) / 16;
    return std::clamp(tried, shortest, is_away_ ? longest : longest_of_called);
  }
  // At the last `pause`: the application had made no call since the one before.
  bool is_away() const { return is_away_; }

 private:
  static constexpr Duration shortest = microseconds(100);
  static constexpr Duration longest_of_called = milliseconds(8);

  std::uint64_t visits_seen_ = 0;
  Time seen_at_{};       // when there were more
  Time called_since_{};  // when they began after the application was away
  bool is_away_ = true;
};

}  // namespace weir
