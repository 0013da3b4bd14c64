// Messages that arrive in a frame of a relay, or that their origin repeats because it does not know
// whether a relay has sent them (PROTOCOL.md §6).
//
// Each section is delivered once, by its number: a relay that stood still may send a section that
// its origin has sent meanwhile. None can be missing: an origin changes the way only when all
// earlier sections have arrived, or it repeats them.
//
// Pure; the caller serialises.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "transport/core/config.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/receiver.h"

namespace weir {

class RelayedArrivals {
 public:
  // All arguments outlive this object.
  RelayedArrivals(const CoreConfig& config, Counters& counters, Peers& peers, Receiver& receiver)
      : config_(config), counters_(counters), peers_(peers), receiver_(receiver) {}

  // The buffer has a checked frame of kind `relayed` or `repeated`, sent by `by`. Delivers what is
  // new in it. False if no correct peer sends such a frame.
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
