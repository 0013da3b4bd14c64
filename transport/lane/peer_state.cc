#include "transport/lane/peer_state.h"

namespace weir {
namespace {

constexpr std::uint16_t bit(PeerState state) {
  return static_cast<std::uint16_t>(1u << static_cast<unsigned>(state));
}

using enum PeerState;

// Row: from. Bits: the states it may go to.
constexpr std::uint16_t edges[] = {
    /* idle       */ bit(connecting) | bit(accepting) | bit(held) | bit(closed) | bit(failed),
    /* connecting */ bit(idle) | bit(connecting) | bit(waiting) | bit(accepting) | bit(ready) |
        bit(held) | bit(closed) | bit(failed),
    /* waiting    */ bit(idle) | bit(connecting) | bit(accepting) | bit(held) | bit(closed) |
        bit(failed),
    /* accepting  */ bit(accepting) | bit(broken) | bit(ready) | bit(closed) | bit(failed),
    /* ready      */ bit(broken) | bit(parting) | bit(parted) | bit(closing) | bit(closed) |
        bit(failed),
    /* broken     */ bit(idle) | bit(connecting) | bit(waiting) | bit(held) | bit(closed) |
        bit(failed),
    /* held       */ bit(connecting) | bit(closed) | bit(failed),
    /* parting    */ bit(ready) | bit(broken) | bit(parted) | bit(idle) | bit(closed) | bit(failed),
    /* parted     */ bit(broken) | bit(idle) | bit(closed) | bit(failed),
    /* closing    */ bit(broken) | bit(closed) | bit(failed),
    /* closed     */ bit(idle) | bit(connecting) | bit(accepting) | bit(held),
    /* failed     */ bit(closed),
};

}  // namespace

const char* to_text(PeerState state) {
  switch (state) {
    case idle: return "idle";
    case connecting: return "connecting";
    case waiting: return "waiting";
    case accepting: return "accepting";
    case ready: return "ready";
    case broken: return "broken";
    case held: return "held";
    case parting: return "parting";
    case parted: return "parted";
    case closing: return "closing";
    case closed: return "closed";
    case failed: return "failed";
  }
  return "unknown";
}

bool allowed(PeerState from, PeerState to) {
  return (edges[static_cast<unsigned>(from)] & bit(to)) != 0;
}

}  // namespace weir
