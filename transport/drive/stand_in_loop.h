// The steps of a thread that stands in for an application that computes, once the event thread has
// called it (absence.h). It hands up what waits, and looks again, until nothing waits. One that calls
// MPI takes what waits itself; then this thread only looks, less and less often.
//
// `Self` derives from it and does what depends on where it runs:
//   bool waits(std::uint64_t& visits)        something waits; the application has made so many calls
//   int hand_up_some(std::uint64_t visits)   0 if it has made more calls since, or nothing is left
//   void called_in_vain()                    nothing was handed up
//
// For one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/time.h"

namespace weir {

template <typename Self>
class StandInLoop {
 public:
  static constexpr Duration longest_pause = milliseconds(1);

 protected:
  // When it was called the application had made so many calls.
  void begin(std::uint64_t visits) {
    seen_ = visits;
    handed_up_ = false;
    pause_ = shortest_pause;
  }

  // How long to sleep before the next turn; nothing: until it is called again.
  std::optional<Duration> turn() {
    for (std::uint64_t visits = 0; self().waits(visits);) {
      const bool is_away = visits == std::exchange(seen_, visits);
      if (!is_away || self().hand_up_some(visits) == 0) {
        return std::exchange(pause_, std::min(pause_ * 2, longest_pause));
      }
      // The last look finds nothing, and gives back the buffers of what was handed up.
      while (self().hand_up_some(visits) > 0) {
      }
      handed_up_ = true;
      pause_ = shortest_pause;
    }
    if (!handed_up_) self().called_in_vain();
    return std::nullopt;
  }

 private:
  static constexpr Duration shortest_pause = microseconds(50);

  Self& self() { return static_cast<Self&>(*this); }

  std::uint64_t seen_ = 0;  // calls of the application at the last look
  bool handed_up_ = false;
  Duration pause_ = shortest_pause;
};

}  // namespace weir
