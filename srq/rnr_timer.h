// The RNR NAK timer: how long a sender waits before it tries again when the receiver had no
// buffer. Verbs takes a 5-bit code; people give a duration. [IBTA 9.7.5.2.8, table 45]
#pragma once

#include <cstdint>

#include "transport/base/time.h"

namespace weir {

// The code of the shortest timer that waits at least `wanted`; the longest one if none does.
// Never by accident 0, which does not mean "none" but 655.36 ms.
std::uint8_t rnr_timer_code(Duration wanted);

// How long the code waits. Codes are taken modulo 32.
Duration rnr_timer_duration(std::uint8_t code);

}  // namespace weir
