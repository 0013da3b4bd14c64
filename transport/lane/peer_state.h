// The life of the connection to one peer, as a table of states. What happens in which of them is
// another table (core/connector_table.h).
//
//   idle ──send──▶ connecting ──answer──▶ ready ──close──▶ closing ─▶ said ──drained──▶ closed
//     │             │     ▲──deadline──┐     ▲                                            │
//     │             └─refused─▶ waiting┘     │                    (a later send or request)└▶ again
//     └──request──▶ accepting ──established──┘
//   ready ──the peer's goodbye──▶ left ──its disconnect──▶ closed
//   ready ──part──▶ parting ──goodbye──▶ idle       an idle connection makes room for another
//                     └──stay──▶ ready
//   ready ──the peer's part, goodbye──▶ parted ──drained──▶ idle
//   parting ──the peer's part──▶ parted
//   ready, parting, parted, closing, said ──the lane breaks──▶ broken_... ──fenced──▶ as its name says
//   accepting ──comes to nothing──────────────────────────────▲
//   connecting ──the peer had our goodbye──▶ idle
//   idle, closed ──the peer has a session that we do not know of──▶ held
//   any of them ──▶ failed
//
// A lane that may have carried frames is fenced before anything else happens (broken_...): what
// arrived counts, and nothing of it comes later.
//
// Two processes may ask each other at the same time. Then the request of the lower name wins: its
// owner refuses the other request ("crossed"); the other process accepts and forgets its own.
#pragma once

#include <cstdint>

namespace weir {

// In an order that makes what is asked for every message one comparison (core/connection.h).
enum class PeerState : std::uint8_t {
  idle,          // known, nothing sent yet
  closed,        // no connection; a new one may be made
  connecting,    // we asked
  waiting,       // for the peer's own request, or for the time to ask again
  accepting,     // we accepted the peer's request; the peer has not confirmed yet
  held,          // the session is taken up by nobody: its frames may go over another rail
  broken_ask,    // the lane broke, and is being destroyed; then we ask for the next connection
  broken_wait,   // then a request is served, or we ask after a while
  broken_hold,   // then the session is held
  broken_end,    // then it is over, unless frames have come meanwhile
  broken_part,   // then it is over: the peer has agreed to part
  broken_leave,  // then it is over: the peer has left, or we want nothing of it any more
  broken_fail,   // then the peer is given up, for what was noted
  parting,       // we asked whether the idle connection may end; nothing is posted meanwhile
  parted,        // both agreed; what was posted has to arrive, later frames wait for the next one
  failed,        // given up and reported
  closing,       // we leave: the goodbye goes out as soon as it can
  said,          // it was sent last, and has to arrive
  ready,         // frames flow
  left,          // the same, and the peer has said goodbye: it sends nothing more
};
inline constexpr unsigned peer_states = 20;

// Some of them.
class PeerStates {
 public:
  constexpr PeerStates(PeerState one) : bits_(1u << static_cast<unsigned>(one)) {}
  constexpr bool has(PeerState state) const { return (bits_ & PeerStates(state).bits_) != 0; }
  friend constexpr bool operator==(PeerStates, PeerStates) = default;
  friend constexpr PeerStates operator|(PeerStates a, PeerStates b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  std::uint32_t bits_;
};
constexpr PeerStates operator|(PeerState a, PeerState b) { return PeerStates(a) | PeerStates(b); }

inline constexpr PeerStates any_broken = PeerState::broken_ask | PeerState::broken_wait |
                                         PeerState::broken_hold | PeerState::broken_end |
                                         PeerState::broken_part | PeerState::broken_leave |
                                         PeerState::broken_fail;

// For a user, to whom some are the same.
const char* to_text(PeerState state);

// Whether the table above has the edge.
bool allowed(PeerState from, PeerState to);

}  // namespace weir
