// What becomes of the connection of one of several rails to a peer, told in the order in which it
// happened; and what the two processes tell each other to carry frames over another rail
// (transport/rail/handover.h, PROTOCOL.md §7).
//
// Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/status.h"

namespace weir {

// Rails of one process.
inline constexpr std::size_t most_rails = 4;

struct HandoverMessage {
  enum class Kind : std::uint8_t { ask = 1, answer, confirm, cancel, over };
  Kind kind = Kind::ask;
  std::uint8_t rail = 0;       // whose session this is about
  std::uint32_t received = 0;  // frames of that session; not for `cancel`
  std::uint64_t exchange = 0;  // its number, of who asked
};

struct LinkNews {
  enum class Kind : std::uint8_t {
    up,       // the connection is ready
    down,     // it broke; the session waits for the next one, or for another rail
    out,      // an attempt at one, or at the next one, failed
    waited,   // the session was held in vain: it is held no more
    parted,   // it ended, and nothing is lost; a later message makes it again
    over,     // the peer was given up on this rail; a Failure says why
    message,  // the peer's `message` came over it
  };
  PeerId peer = PeerId::none;
  Kind kind = Kind::up;
  FailReason reason = FailReason::none;  // why it broke
  HandoverMessage message{};
};

}  // namespace weir
