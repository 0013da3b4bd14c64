// The life of the connection to one peer, as a table of states.
//
//   idle ──send──▶ connecting ──answer──▶ ready ──close──▶ closing ──drained──▶ closed
//     │             │     ▲──deadline──┐     ▲                                    │
//     │             └─refused─▶ waiting┘     │            (a later send or request)└▶ again
//     └──request──▶ accepting ──established──┘
//   ready ──part──▶ parting ──goodbye──▶ idle       an idle connection makes room for another
//                     └──stay──▶ ready
//   ready ──the peer's part, goodbye──▶ parted ──drained──▶ idle
//   parting ──the peer's part──▶ parted
//   ready, parting, parted, closing ──the lane breaks──▶ broken ──fenced──▶ connecting ──▶ ready
//   accepting ──comes to nothing─────────────────────────▲  ├──fenced──▶ waiting ──request──▶ accepting
//                                                           ├──fenced──▶ held ──let go──▶ connecting
//                                                           └──fenced──▶ idle, closed or failed
//   connecting ──the peer had our goodbye──▶ idle
//   idle, closed ──the peer has a session that we do not know of──▶ held
//   any of them ──▶ failed
//
// A lane that may have carried frames is fenced before anything else happens (broken): what arrived
// counts, and nothing of it comes later. What is to happen then is AfterFence.
//
// Two processes may ask each other at the same time. Then the request of the lower name wins: its
// owner refuses the other request ("crossed"); the other process accepts and forgets its own.
#pragma once

#include <cstdint>

namespace weir {

enum class PeerState : std::uint8_t {
  idle,        // known, nothing sent yet
  connecting,  // we asked
  waiting,     // for the peer's own request, or for the time to ask again
  accepting,   // we accepted the peer's request; the peer has not confirmed yet
  ready,       // frames flow
  broken,   // the lane broke, and is being destroyed; what comes then is AfterFence
  held,     // the session is taken up by nobody: its frames may go over another rail
  parting,  // we asked whether the idle connection may end; nothing is posted before the answer
  parted,   // both agreed; what was posted has to arrive, later frames wait for the next one
  closing,  // we leave: the pending queue drains, a goodbye goes out last
  closed,   // no connection; a new one may be made
  failed,   // given up and reported
};

enum class AfterFence : std::uint8_t {
  ask,   // for the next connection
  wait,  // for a request that is about to be served, or for the time to ask
  hold,
  end,   // we leave, or nobody needs it
  fail,  // as noted
};

const char* to_text(PeerState state);

// Whether the table above has the edge.
bool allowed(PeerState from, PeerState to);

}  // namespace weir
