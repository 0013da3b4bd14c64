// Makes lanes for fetches: a second queue pair to a peer, for chains of reads. On the lane for
// frames, a chain would hold up the frames behind it: a queue pair has only so many reads under
// way, and whatever follows them waits.
//
// The two ends tell each other their queue pairs in frames on the first lane; PROTOCOL.md §5 has
// the steps. Without this lane, reads go chunk by chunk, so nothing depends on it or waits for it.
//
// Adapters that must not have sends or writes before a fetch (CoreConfig::fetches_apart) are the
// exception: there all gets and atomics of a peer use the lane and wait for it. If it cannot be
// made, a peer that needs it fails.
//
// Pure; the caller serialises. A new lane allocates.
#pragma once

#include <cstdint>

#include "transport/base/now.h"
#include "transport/base/time.h"
#include "transport/core/config.h"
#include "transport/core/lanes.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/sender.h"

namespace weir {

class FetchLanes {
 public:
  class Listener {
   public:
    // How many reads a new lane should have under way.
    virtual std::uint32_t most_reads() const = 0;
    // The peer's lane has become usable, or was refused.
    virtual void on_fetch_lane(const Now& now, Peer& peer, Outbox& out) = 0;
    // The peer's lane is about to be released.
    virtual void on_fetch_lane_ends(Peer& peer) = 0;

   protected:
    ~Listener() = default;
  };

  // All arguments outlive this object.
  FetchLanes(const CoreConfig& config, Peers& peers, Lanes& lanes, Sender& sender,
             Listener& listener)
      : config_(config), peers_(peers), lanes_(lanes), sender_(sender), listener_(listener) {}

  // Offers the peer a lane, unless that was done. Transfers that want it now still go without it.
  void want(Peer& peer, Outbox& out);

  // The connection is ready: looks at what the peer said about its end before.
  void on_ready(const Now& now, Peer& peer, Outbox& out);
  // Our end was made, and connected if that was asked for; with qp_number 0 it was not made.
  void on_made(const Now& now, LaneId lane, const wire::LaneEnd& ours, Outbox& out);
  // What the peer says about its end. False if no correct peer says that.
  [[gnu::noinline]] bool on_told(const Now& now, Peer& peer, const wire::LaneEnd& theirs,
                                 Outbox& out);

  // The connection ends.
  void drop(Peer& peer, Outbox& out);
  // The connection broke: the lane is fenced. Then `forget`.
  void fence(Peer& peer, Outbox& out);
  void forget(Peer& peer) {
    sender_.forget_lane_end(peer);  // it may have been made after the lane was fenced
    peer.fetch_lane = {};
  }

 private:
  void make_end(Peer& peer, const wire::LaneEnd& theirs, Outbox& out);
  void use_if_joined(const Now& now, Peer& peer, Outbox& out);
  void refuse(const Now& now, Peer& peer, Outbox& out);

  const CoreConfig& config_;
  Peers& peers_;
  Lanes& lanes_;
  Sender& sender_;
  Listener& listener_;
};

}  // namespace weir
