// The life of the connection to one peer, as a table of states.
//
//   idle ──send──▶ connecting ──answer──▶ ready ──close──▶ closing ──drained──▶ closed
//     └──request──▶ accepting ──established──▲                                    │
//                                                         (a later send or request)└▶ again
//   ready ──part──▶ parting ──goodbye──▶ idle       an idle connection makes room for another
//                     └──stay──▶ ready
//   ready ──the peer's part, goodbye──▶ parted ──drained──▶ idle
//   parting ──the peer's part──▶ parted
//   ready, parting, parted, closing ──the lane breaks──▶ broken ──fenced──▶ connecting ──▶ ready
//                                                          └──request──▶ accepting ──▶ ready
//   broken, connecting ──the peer had our goodbye──▶ idle
//   any of them ──▶ failed
//
// Two processes may ask each other at the same time. Then the request of the lower name wins: its
// owner refuses the other request ("crossed"); the other process accepts and forgets its own.
#pragma once

#include <cstdint>

namespace weir {

enum class PeerState : std::uint8_t {
  idle,        // known, nothing sent yet
  connecting,  // we asked, or wait for the peer's own request after ours crossed with it
  accepting,   // we accepted the peer's request; the peer has not confirmed yet
  ready,       // frames flow
  broken,   // the lane broke; the session goes on over the next one, and nothing is posted before
  parting,  // we asked whether the idle connection may end; nothing is posted before the answer
  parted,   // both agreed; what was posted has to arrive, later frames wait for the next one
  closing,  // we leave: the pending queue drains, a goodbye goes out last
  closed,   // no connection; a new one may be made
  failed,   // given up and reported
};

const char* to_text(PeerState state);

// Whether the table above has the edge.
bool allowed(PeerState from, PeerState to);

}  // namespace weir
