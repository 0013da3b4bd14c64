// Messages that arrive in a frame of a relay, or that their origin repeats because it does not know
// whether a relay has sent them (PROTOCOL.md §6).
//
// By its number each section is delivered once: a relay that stood still may send what its origin
// has sent meanwhile. None can be missing, for its origin gives or sends the next only when this
// one arrived.
//
// Pure; the caller serialises.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/base/counters.h"
#include "transport/core/config.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/receiver.h"

namespace weir {

class RelayedArrivals {
 public:
  // All of these outlive this.
  RelayedArrivals(const CoreConfig& config, Counters& counters, Peers& peers, Receiver& receiver)
      : config_(config), counters_(counters), peers_(peers), receiver_(receiver) {}

  // A checked frame of kind `relayed` or `repeated`, that `by` sent, is in the buffer. Delivers
  // what is new of it. False if no correct peer sends that.
  [[gnu::noinline]] bool take(PeerId by, BufferId buffer, std::size_t size, Outbox& out);

 private:
  bool take_section(PeerId from, BufferId buffer, const std::byte* messages, std::size_t size,
                    Outbox& out);

  const CoreConfig& config_;
  Counters& counters_;
  Peers& peers_;
  Receiver& receiver_;
};

}  // namespace weir
