// Makes lanes for fetches: a second queue pair to a peer, for chains of reads. On the lane for
// frames, a chain would hold up the frames behind it: a queue pair has only so many reads under
// way, and whatever follows them waits. Further pairs, if there are to be several `paths`, take the
// chunks of large gets; each may go another way through the fabric.
//
// The two ends tell each other their queue pairs in frames on the first lane; PROTOCOL.md §5 has
// the steps. Without these lanes, reads go chunk by chunk, so nothing depends on them or waits for
// them. A further lane may be left while the connection lasts: both ends destroy their pairs, and
// either may offer the next one.
//
// Adapters that must not have sends or writes before a fetch (CoreConfig::fetches_apart) are the
// exception: there all gets and atomics of a peer use the lane and wait for it. If it cannot be
// made, a peer that needs it fails.
//
// Pure; the caller serialises. A new lane allocates.
#pragma once

#include <cstdint>
#include <optional>

#include "base/now.h"
#include "base/time.h"
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
    // How many reads a new first lane should have under way.
    virtual std::uint32_t most_reads() const = 0;
    // The peer's lane has become usable, or was refused.
    virtual void on_fetch_lane(const Now& now, Peer& peer, Outbox& out) = 0;
    // The peer's first lane is about to be released.
    virtual void on_fetch_lane_ends(Peer& peer) = 0;
    // A further lane has become usable, or is to be left: it takes nothing more.
    virtual void on_further_lane(const Now& now, Peer& peer, Outbox& out) = 0;

   protected:
    ~Listener() = default;
  };

  // All arguments outlive this object.
  FetchLanes(const CoreConfig& config, Peers& peers, Lanes& lanes, Sender& sender,
             Listener& listener)
      : config_(config), peers_(peers), lanes_(lanes), sender_(sender), listener_(listener) {}

  // Offers the peer the first lane, unless that was done. Transfers that want it now still go
  // without it.
  void want(Peer& peer, Outbox& out);
  // The same for the further lanes that `paths` asks for. A lane that was left follows after a
  // pause.
  [[gnu::cold, gnu::noinline]] void want_further(const Now& now, Peer& peer, Outbox& out);
  // The further lane is slow, or broke: it ends, and its work under way is lost.
  void leave(const Now& now, Peer& peer, std::uint8_t number, Outbox& out);

  // The connection is ready: looks at what the peer said about its end before.
  void on_ready(const Now& now, Peer& peer, Outbox& out);
  // Our end was made, and connected if that was asked for; or could not be made.
  void on_made(const Now& now, LaneId lane, const wire::LaneEnd& ours, Outbox& out);
  // What the peer says about its end. False if no correct peer says that.
  [[gnu::noinline]] bool on_told(const Now& now, Peer& peer, const wire::LaneEnd& theirs,
                                 Outbox& out);

  // The connection ends.
  void drop(Peer& peer, Outbox& out);
  // The connection broke: the lanes are fenced. Then `forget`.
  void fence(Peer& peer, Outbox& out);
  // A lane that was fenced, or left, is destroyed.
  void forget(const Now& now, Peer& peer, std::uint8_t number, Outbox& out);

  // Tells the peer the lane ends that it has yet to hear of, if there is room now.
  void tell(Peer& peer, Outbox& out) {
    if (peer.outgoing.owes_lane_end() || (peer.further && peer.further->owed != 0)) [[unlikely]]
      tell_ends(peer, out);
  }
  static bool is_settled(const Peer& peer) {
    return peer.fetch_lane.is_settled() && !peer.outgoing.owes_lane_end() &&
           (!peer.further || peer.further->is_settled());
  }

 private:
  FetchLane& end_of(Peer& peer, std::uint8_t number);
  void make_end(Peer& peer, std::uint8_t number, const std::optional<wire::LaneEnd>& theirs,
                Outbox& out);
  void join(Peer& peer, FetchLane& end, const wire::LaneEnd& theirs, Outbox& out);
  bool on_offer(const Now& now, Peer& peer, FetchLane& end, const wire::LaneEnd& theirs,
                Outbox& out);
  bool on_joined(const Now& now, Peer& peer, FetchLane& end, const wire::LaneEnd& theirs,
                 Outbox& out);
  void on_none(const Now& now, Peer& peer, const wire::LaneEnd& theirs, Outbox& out);
  void use_if_joined(const Now& now, Peer& peer, std::uint8_t number, Outbox& out);
  void refuse(const Now& now, Peer& peer, Outbox& out);
  void begin_leaving(Peer& peer, FetchLane& end, Outbox& out);
  void drop_end(FetchLane& end, Outbox& out);
  void fence_end(FetchLane& end, Outbox& out);
  void owe(Peer& peer, const wire::LaneEnd& end, Outbox& out);
  void forget_owed(Peer& peer);
  [[gnu::cold, gnu::noinline]] void tell_ends(Peer& peer, Outbox& out);

  const CoreConfig& config_;
  Peers& peers_;
  Lanes& lanes_;
  Sender& sender_;
  Listener& listener_;
};

}  // namespace weir
