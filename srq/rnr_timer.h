// The RNR NAK timer: how long a sender waits before it tries again when the receiver had no buffer.
// Verbs takes a 5-bit code; people give a duration. [IBTA 9.7.5.2.8, table 45]
#pragma once

#include <cstdint>

#include "base/time.h"

namespace weir {

// The code of the shortest timer that waits at least `wanted`; if none does, the longest timer.
// Code 0 never comes up by accident: it does not mean "none" but 655.36 ms.
std::uint8_t rnr_timer_code(Duration wanted);

// How long a sender with this code waits. Codes are taken modulo 32.
Duration rnr_timer_duration(std::uint8_t code);

// Finds the timer to advertise from the times for which the receive queue was empty: their smoothed
// time plus twice its deviation, in the way TCP finds its timeout (RFC 6298). A sender that waits
// less is turned back again; one that waits longer stands idle.
//
// There is a least, because all senders may try again at once: one retry a microsecond is what a
// receiver should get at most, and no sender needs more than one in 80 us. And there is a most,
// because one long computation of the receiver says nothing about the next time: with 10 ms a
// sender repeats a hundred frames a second, which is no load.
//
// Pure; the caller serialises.
class RnrAdvisor {
 public:
  explicit RnrAdvisor(std::uint8_t code) : code_(code) {}

  // The queue was empty for so long, with so many senders. True if the advice changed; it changes
  // only by two codes or more, because each change costs a call for every queue pair.
  bool add(Duration empty, std::uint32_t senders);

  std::uint8_t code() const { return code_; }

 private:
  std::uint8_t code_;
  bool any_ = false;
  Duration smoothed_{};
  Duration deviation_{};
};

}  // namespace weir
