// The watch over lanes: work in flight has to make progress, and peers have to be there.
//
// With nothing in flight nothing can fail: RC does not tell that a peer's host is dead, and a dead
// host sends no goodbye or disconnect. A process that only receives would wait for ever. So a
// silent lane gets a probe in its turn. The turns are spread over the looks, so that thousands of
// peers are not probed at once.
//
// The watch looks at all lanes eight times in a peer timeout, at a few hundred each time it is
// called. It counts looks, not time: a process that was stopped for an hour has looked once, and
// still gives its peers their chance.
//
// Pure; the caller serialises. Allocates nothing.
#pragma once

#include <cstdint>

#include "base/now.h"
#include "base/time.h"
#include "transport/core/config.h"
#include "transport/core/connector.h"
#include "transport/core/lanes.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/sender.h"

namespace weir {

class Watch {
 public:
  // All arguments outlive this object.
  Watch(const CoreConfig& config, Peers& peers, Lanes& lanes, Sender& sender, Connector& connector)
      : config_(config), peers_(peers), lanes_(lanes), sender_(sender), connector_(connector) {}

  // Time of the next look, or of the one under way; never, if there is no lane to look at. Called
  // at each wake-up, so it searches only a few hundred lanes.
  Time next_look() const;
  // Call when all available completions have been handed over.
  void on_timer(const Now& now, Outbox& out);

 private:
  static constexpr std::uint32_t all_seen = UINT32_MAX;
  static constexpr std::uint32_t lanes_at_once = 256;

  bool is_watched(const Lane& lane) const;
  bool may_probe(const Lane& lane) const;
  void look_at(const Now& now, LaneId id, bool its_turn, Outbox& out);

  const CoreConfig& config_;
  Peers& peers_;
  Lanes& lanes_;
  Sender& sender_;
  Connector& connector_;
  Time next_look_{};
  Time look_began_{};
  std::uint32_t looks_ = 0;
  std::uint32_t next_lane_ = all_seen;  // of the look that is under way
  mutable std::uint32_t last_watched_ = 0;  // the lane that `next_look` found
};

}  // namespace weir
